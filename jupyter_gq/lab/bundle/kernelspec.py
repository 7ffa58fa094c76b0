"""The description of a notebook's kernel for a job: its command and the names of the variables that it sets."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from jupyter_gq.client.environment.secret_names import holds_secret
from jupyter_gq.client.environment.variables import NO_VARIABLE, RESERVED, matches
from jupyter_gq.client.models import Kernel
from jupyter_gq.lab.jupyter_parts import KernelSpec

#: Variables of the Hub and the server, which a kernel gets from nobody but its own machine.
_OF_SERVER = ("JUPYTERHUB_*", "JPY_*")
#: Commands that mean "the Python of the Jupyter server" in a kernelspec, as jupyter_client interprets them.
OWN_PYTHON = frozenset({"python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}"})


def select_environment(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the variables whose name matches one of the patterns, without secrets, and without the Hub's and ours."""
    allowed = tuple(patterns)
    return {name: value for name, value in sorted(environ.items()) if matches(name, allowed) and can_send(name, value)}


def can_send(name: str, value: str) -> bool:
    """Return whether a variable may travel with a job.

    Secrets, variables that the Hub or the service sets, and those with a name such as "A B" may not.
    """
    return not matches(name, RESERVED) and not holds_secret(name, value) and NO_VARIABLE.search(name) is None


def names_command(argv: object) -> bool:
    """Return whether the `argv` of a kernelspec has a program to start: a list whose first text is not empty."""
    return isinstance(argv, list) and bool(argv and argv[0])


def describe_kernel(name: str, spec: KernelSpec, environment: Mapping[str, str]) -> Kernel:
    """Return the kernel of this kernelspec (`jupyter_client.kernelspec.KernelSpec`), as it starts in this environment.

    The command gets an absolute interpreter, because the job does not run inside this server's environment; only
    `{connection_file}` remains to be filled in. Of the kernelspec's variables only the names are sent: the runner reads
    the values from the kernelspec on its own machine. The Hub's and the server's own variables are left out.
    """
    argv = [str(part) for part in spec.argv]
    values = {"prefix": sys.prefix, "resource_dir": spec.resource_dir}
    for field, value in values.items():
        argv = [part.replace("{" + field + "}", value) for part in argv]
    if argv:
        argv[0] = _resolve_command(argv[0], environment)
    return Kernel(
        name=name,
        display_name=spec.display_name,
        language=spec.language,
        argv=argv,
        env_names=[key for key in spec.env if not matches(key, _OF_SERVER)],
        resource_dir=spec.resource_dir,
    )


def _resolve_command(command: str, environment: Mapping[str, str]) -> str:
    if command in OWN_PYTHON:
        return sys.executable
    if Path(command).is_absolute():
        return command
    return shutil.which(command, path=environment.get("PATH")) or command

"""The description of a notebook's kernel for a job: its command and the environment that it needs."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from string import Template

from jupyter_gq.client.models import Kernel

from .jupyter_parts import KernelSpec

#: Variables that are never sent, even if the allow-list has them: those of the Hub and the server, and likely secrets.
NEVER_SENT = (
    "JUPYTERHUB_*",
    "JPY_*",
    "JUPYTER_GQ_*",
    "GQ_*",
    "*TOKEN*",
    "*SECRET*",
    "*PASSWORD*",
    "*PASSWD*",
    "*COOKIE*",
)
#: Commands that mean "the Python of the Jupyter server" in a kernelspec, as jupyter_client interprets them.
OWN_PYTHON = frozenset({"python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}"})


def select_environment(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the variables whose name matches one of the patterns and none of `NEVER_SENT`."""
    allowed = tuple(patterns)
    return {
        name: value
        for name, value in sorted(environ.items())
        if _matches_any(name, allowed) and not _matches_any(name, NEVER_SENT)
    }


def describe_kernel(name: str, spec: KernelSpec, environment: Mapping[str, str]) -> Kernel:
    """Return the kernel of this kernelspec (`jupyter_client.kernelspec.KernelSpec`), as it starts in this environment.

    The command gets an absolute interpreter, because the job does not run inside this server's environment; only
    `{connection_file}` remains to be filled in. `${NAME}` in its environment is replaced from `environment` alone; the
    Hub's and the server's own variables are left out.
    """
    argv = [str(part) for part in spec.argv]
    values = {"prefix": sys.prefix, "resource_dir": spec.resource_dir}
    for field, value in values.items():
        argv = [part.replace("{" + field + "}", value) for part in argv]
    if argv:
        argv[0] = _resolve_command(argv[0], environment)
    env = {
        key: Template(value).safe_substitute(environment)
        for key, value in spec.env.items()
        if not _matches_any(key, NEVER_SENT[:2])
    }
    return Kernel(name=name, display_name=spec.display_name, language=spec.language, argv=argv, env=env)


def _resolve_command(command: str, environment: Mapping[str, str]) -> str:
    if command in OWN_PYTHON:
        return sys.executable
    if Path(command).is_absolute():
        return command
    return shutil.which(command, path=environment.get("PATH")) or command


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

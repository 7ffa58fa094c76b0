"""How to start the kernel of a notebook elsewhere on this machine: its command and the environment that it needs."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from string import Template

from jupyter_gq.client.models import Kernel

from .jupyter_parts import KernelSpec

#: Never goes along, whatever the allow-list says: the Hub's and the server's own variables, and what looks secret.
NEVER = ("JUPYTERHUB_*", "JPY_*", "JUPYTER_GQ_*", "GQ_*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*COOKIE*")
#: Names by which a kernelspec means "the Python of the Jupyter server", as jupyter_client reads them.
OWN_PYTHON = frozenset({"python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}"})


def allowed_environment(environ: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """The variables whose name fits one of the patterns and none of `NEVER`."""
    allowed = tuple(patterns)
    return {name: value for name, value in sorted(environ.items()) if _fits(name, allowed) and not _fits(name, NEVER)}


def kernel_of(name: str, spec: KernelSpec, environment: Mapping[str, str]) -> Kernel:
    """The kernel of this kernelspec (`jupyter_client.kernelspec.KernelSpec`), as it starts in this environment.

    The command gets an absolute interpreter, because the job does not run inside this server's environment; only
    `{connection_file}` is left to fill in. `${NAME}` in its environment is filled in from `environment` alone.
    """
    argv = [str(part) for part in spec.argv]
    values = {"prefix": sys.prefix, "resource_dir": spec.resource_dir}
    for field, value in values.items():
        argv = [part.replace("{" + field + "}", value) for part in argv]
    if argv:
        argv[0] = _absolute(argv[0], environment)
    env = {
        key: Template(value).safe_substitute(environment)
        for key, value in spec.env.items()
        if not _fits(key, NEVER[:2])
    }
    return Kernel(name=name, display_name=spec.display_name, language=spec.language, argv=argv, env=env)


def _absolute(command: str, environment: Mapping[str, str]) -> str:
    if command in OWN_PYTHON:
        return sys.executable
    if Path(command).is_absolute():
        return command
    return shutil.which(command, path=environment.get("PATH")) or command


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

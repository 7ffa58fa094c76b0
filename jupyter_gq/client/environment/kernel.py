"""How a kernel's command is changed so that it knows the caps of its share. Pure, standard library only.

Used by the runner and by the Jupyter server's provisioner: a cell meets the same kernel in both places.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

from jupyter_gq.domain.json_types import JsonMapping

from .variables import keep_one_fraction

#: Started instead of `-m ipykernel_launcher`; applies the caps, then runs that module. Standard library only.
STARTUP_FILE = Path(__file__).resolve().parents[2] / "notebook" / "kernel_startup.py"
#: Run in a job's kernel to save the variables that the job returns. Standard library and cloudpickle.
SAVE_FILE = STARTUP_FILE.with_name("save_results.py")
#: Run in a kernel to save or load the variables that a job takes along. Standard library and cloudpickle.
CARRY_FILE = STARTUP_FILE.parent / "carrying" / "call.py"
#: Sent to a job's kernel to watch its last cell. Standard library only.
_WATCH_FILE = STARTUP_FILE.with_name("last_statement.py")
#: The expression by which a kernel that was told to watch says what ran last.
LAST_STATEMENT = "__import__('IPython').get_ipython()._jupyter_gq_last.tell()"


def make_watch_code() -> str:
    """Return the code that lets a kernel watch what runs last in its cells; it assigns no name of the user.

    The code has the whole source in it, since a kernel in a container does not have our files.
    """
    source = _WATCH_FILE.read_text(encoding="utf-8")
    names = "{'__name__': 'jupyter_gq_last_statement'}"
    return f"(lambda names: (exec({source!r}, names), names['watch'](__import__('IPython').get_ipython())))({names})"


def make_carry_call(module: str, request: JsonMapping) -> str:
    """Return the code that lets a kernel call a module of `notebook/carrying`; it assigns no name of the user."""
    return f"__import__('runpy').run_path({str(CARRY_FILE)!r})['call']({module!r}, {json.dumps(request)!r})"


_LAUNCHERS = frozenset({"ipykernel_launcher", "ipykernel"})
#: Commands that start the kernel where our file is not.
_ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "singularity", "apptainer", "kubectl", "ssh"})


def prepare(argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and a copy of the environment with which to start this kernel.

    A command that runs ipykernel's own launcher (`... -m ipykernel_launcher ...`) runs our start-up file in its place,
    in the same interpreter and with the same options. Every other command is returned as it is: kernels of other
    languages have no caps to apply, and a kernel in a container or on another machine does not have our file.
    `keep_one_fraction` is applied to the environment, since a kernelspec may set the other name of JAX's fraction.
    """
    command = list(argv)
    for position, (flag, module) in enumerate(pairwise(command)):
        if PurePath(flag).name in _ELSEWHERE:
            break
        if flag == "-m" and module in _LAUNCHERS:
            command[position : position + 2] = [str(STARTUP_FILE)]
            break
    return command, keep_one_fraction(env)

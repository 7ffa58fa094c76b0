"""Notebooks in forked processes with IPython's shell in place of kernels, and jobs of their last cells.

Variables are saved and loaded by the code that kernels run for that. A process takes a tenth of a second, and a kernel
with a runner several, so many odd notebooks can be compared.
"""

import io
import json
import os
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from jupyter_gq.client.environment.kernel import make_carry_call
from jupyter_gq.client.models import Kernel
from jupyter_gq.lab.bundle.bundle import plan_steps
from jupyter_gq.lab.carrying.captures import Wanted
from jupyter_gq.lab.carrying.lost import explain_lost
from jupyter_gq.lab.carrying.models import CaptureRequest
from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.plan.hidden_inputs import find_differences

PYTHON = Kernel(name="python3", argv=["python"])


class Forks:
    """A process that has imported IPython, and that forks one for each notebook and each job."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Return what a function of this module returns in a new process; it must be JSON."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([work.__name__, arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Shell:
    """IPython in this process, with a namespace of its own."""

    def __init__(self, folder: str) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        os.environ["IPYTHONDIR"] = folder
        os.chdir(folder)
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "nocolor"
        self._shell = InteractiveShell.instance(config=config, user_module=module)

    def run(self, source: str, *, silent: bool = False) -> tuple[bool, str]:
        """Run a cell; return whether it has ended without an error, and what it has shown."""
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(shown):
            result = self._shell.run_cell(source, store_history=not silent, silent=silent)
        return bool(result.success), shown.getvalue()


def run_notebook(folder: str, cells: Sequence[str]) -> dict[str, Any]:
    """Run a notebook; return what its last cell shows, and the two jobs of that cell with what the dialog tells."""
    shell = Shell(folder)
    *before, target = cells
    ran = [(source, shell.run(source)[0]) for source in before]
    request, steps = _plan(ran, target)
    done = [_describe_run(place, source, is_ok) for place, (source, is_ok) in enumerate(ran)]
    wanted = Wanted.read(request, steps)
    pickles = Path(folder, "pickles")
    pickles.mkdir()
    asked = {"names": wanted.names, "folder": str(pickles), "limit": 10**7, "cwd": folder}
    shell.run(make_carry_call("save", {**asked, "makers": wanted.needed, "staying": {}}), silent=True)
    report = json.loads((pickles / "report.json").read_text())
    staying = [each["name"] for each in report["variables"] if each["why"]]
    replayed = sorted({place for name in staying for place in wanted.find_makers(name)})
    lacking = [name for name in staying if not wanted.find_makers(name) and name not in wanted.may_lack]
    return {
        "shown": shell.run(target)[1],
        "replay": {"cells": [step.source for step in steps], "load": None},
        "replay_told": [each.message for each in find_differences(steps, [], done)],
        "carry": {
            "cells": [*(request.prefix[place].source for place in replayed), target],
            "load": {
                "folder": str(pickles),
                "python": report["python"],
                "packages": {},
                "pickles": report["pickles"],
                "replays": bool(replayed),
            },
        },
        "carry_told": [*lacking, *explain_lost(staying, replayed, steps)],
    }


def run_job(folder: str, cells: Sequence[str], load: dict[str, Any] | None) -> tuple[bool, str]:
    """Run the cells of a job; return whether it has succeeded, and what its last cell shows, or the error."""
    shell = Shell(folder)
    *before, target = cells
    if load is not None:
        _ask(shell, folder, {**load, "step": "load"})
    for source in before:
        succeeded, shown = shell.run(source)
        if not succeeded:
            return False, shown
    if load is not None and load["replays"]:
        _ask(shell, folder, {"step": "restore"})
    return shell.run(target)


def _ask(shell: Shell, folder: str, request: dict[str, Any]) -> None:
    report = Path(folder, "loaded.txt")
    shell.run(make_carry_call("load", {**request, "report": str(report)}), silent=True)
    assert report.read_text() == ""


def _plan(ran: Sequence[tuple[str, bool]], target: str) -> tuple[CaptureRequest, list[Any]]:
    """Return the request that the dialog proposes for the last cell, and the cells that would run."""
    sources = [source for source, _ in ran]
    listed = [{"cell_type": "code", "id": f"c{n}", "source": each} for n, each in enumerate([*sources, target])]
    prefix = [{"cell_id": f"c{n}", "source": source} for n, (source, is_ok) in enumerate(ran) if is_ok]
    request = CaptureRequest(notebook={"cells": listed}, targets=[f"c{len(ran)}"], prefix=prefix)
    return request, plan_steps(request, PYTHON)


def _describe_run(place: int, source: str, is_ok: bool) -> RanCell:
    return RanCell(code=source, execution_count=place + 1, seconds=1.0, failed=not is_ok, cell_id=f"c{place}")


def _serve() -> None:
    """Answer each line of standard input by a line of a new process, which is empty if that fails."""
    import cloudpickle  # noqa: F401 - each process needs it
    from IPython.core.interactiveshell import InteractiveShell  # noqa: F401 - each process needs it

    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                name, arguments = json.loads(line)
                print(json.dumps({"run_notebook": run_notebook, "run_job": run_job}[name](*arguments)), flush=True)
            except BaseException:  # noqa: BLE001 - any failure of a child is shown, and none forks on
                traceback.print_exc()
                print(flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    _serve()

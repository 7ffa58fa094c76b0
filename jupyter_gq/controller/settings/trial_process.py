"""The process in which a configuration file is tried; `trial` starts it, reads its report and kills it.

The report is a file with one JSON object on each line, and with the stack that Python writes at the deadline.
"""

import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from .config_file import ExecutedFiles, load_config
from .loaded_policy import find_policy
from .start_sections import StartSections
from .trial import STACK_SIGNAL

#: From linux/prctl.h.
_SET_PARENT_DEATH_SIGNAL = 1


class _ReportedFiles(ExecutedFiles):
    """Executed files, each of which is told when its execution begins."""

    def __init__(self, report: int) -> None:
        """Start without files; `report` is an open file."""
        super().__init__()
        self._report = report

    def begin(self, path: Path) -> None:
        """Add a file that is about to be opened, and tell it."""
        if path not in self:
            _tell(self._report, began=str(path))
        super().begin(path)


def main() -> None:
    """Execute the file that standard input names, and check its values, within the limits that it names."""
    task = json.load(sys.stdin)
    sys.path[:] = task["path"]
    report: int = task["report"]
    os.set_inheritable(report, False)  # programs that the file starts do not write into it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _give_way()
    _tell(report, begins=True)
    faulthandler.enable(report)  # at the end by a signal, such as that of a library that crashes
    faulthandler.register(STACK_SIGNAL, report, all_threads=False)
    # A thread of Python that needs no lock of it: also while one step of Python computes, the stack is written.
    faulthandler.dump_traceback_later(task["seconds"], exit=True, file=report)
    try:
        executed = _ReportedFiles(report)
        config = load_config(Path(task["file"]), executed)
        find_policy(config, executed, StartSections(names=task["names"]))
    except BaseException:  # noqa: BLE001, S110 - an error is told where the file is executed next
        pass
    _tell(report, done=True)
    os._exit(0)  # nothing that the file has left may go on


def _give_way() -> None:
    """Let this process, and no other one, end if memory lacks, and if the one that started it ends."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _tell(report: int, **told: object) -> None:
    os.write(report, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()

"""The process in which a configuration file is tried; `trial` starts it, reads its report and kills it.

The report is a file with one JSON object on each line, and with the stack that Python writes at the deadline.
"""

import faulthandler
import json
import os
import resource
import sys
from pathlib import Path

from .config_file import ExecutedFiles, load_config
from .loaded_policy import find_policy
from .start_sections import StartSections


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
    resource.setrlimit(resource.RLIMIT_DATA, (task["memory"], task["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _tell(report, begins=True)
    faulthandler.enable(report)  # at the end by a signal, such as that of a library that crashes
    # A thread of Python that needs no lock of it: also while one step of Python computes, the stack is written.
    faulthandler.dump_traceback_later(task["seconds"], exit=True, file=report)
    try:
        executed = _ReportedFiles(report)
        config = load_config(Path(task["file"]), executed)
        find_policy(config, executed, StartSections(names=task["names"]))
    except BaseException as error:  # noqa: BLE001 - any other error is told where the file is executed next
        if _is_of_memory(error):
            _tell(report, memory=str(error) or "There was not enough memory.")
    _tell(report, done=True)
    os._exit(0)  # nothing that the file has left may go on


def _is_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one before it, says that memory lacked."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, MemoryError) or "(MemoryError" in str(each):
            return True
        each = each.__cause__ or each.__context__
    return False


def _tell(report: int, **told: object) -> None:
    os.write(report, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()

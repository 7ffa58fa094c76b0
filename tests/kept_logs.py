"""Logs of the processes of a test, and the plugin that keeps them when the test fails.

Code that starts a process calls `LOGS.add(...)`, and `LOGS.release(...)` after the end of the process. When a test
fails, the folder `test-results/TIER/TEST` gets the logs of all processes that ran during the test, and the file
`report.txt` with the traceback and all captured output. The report of the failure names the folder. The next run of the
test begins with the removal of this folder. `JUPYTER_GQ_TEST_RESULTS` names another place than `test-results`.
"""

import hashlib
import itertools
import os
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

#: Bytes that are kept of a log: its end.
MOST_KEPT = 2_000_000
RESULTS = "JUPYTER_GQ_TEST_RESULTS"
#: Characters of a folder's name.
_LONGEST_NAME = 120


@dataclass(frozen=True)
class _Process:
    """A process, or several that log into one folder."""

    name: str
    folder: Path
    patterns: tuple[str, ...]

    def read(self) -> dict[Path, bytes]:
        """Return the end of each log, by its path below the folder of results."""
        found = {}
        for pattern in self.patterns:
            for file in self.folder.glob(pattern):
                if (content := _read_end(file)) is not None:
                    found[Path(self.name, file.relative_to(self.folder))] = content
        return found


def _read_end(file: Path) -> bytes | None:
    """Return the last `MOST_KEPT` bytes of a file; None if it is gone, or is no file: to open a pipe waits for ever."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - MOST_KEPT))
            return log.read()
    except OSError:
        return None


class Logs:
    """The logs of the processes that run, and of those that ended during the present test."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, Path], _Process] = {}
        self._ended: dict[Path, bytes] = {}
        self._lock = threading.Lock()

    def add(self, name: str, folder: Path, *patterns: str) -> None:
        """Add the files in `folder` that match one of the patterns. `name`: the process, in the folder of results."""
        with self._lock:
            taken = {each.name for key, each in self._running.items() if key != (name, folder)}
            names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
            unique = next(each for each in names if each not in taken)
            self._running[name, folder] = _Process(unique, folder, patterns)

    def release(self, name: str, folder: Path) -> None:
        """Drop these logs at the end of the present test. The folder may be deleted at once."""
        with self._lock:
            process = self._running.pop((name, folder), None)
            if process is not None:
                self._ended |= process.read()

    def read(self) -> dict[Path, bytes]:
        """Return the end of each log, by its path below the folder of results."""
        with self._lock:
            found = dict(self._ended)
            for process in self._running.values():
                found |= process.read()
            return found

    def finish_test(self) -> None:
        """Drop the logs of the processes that have ended."""
        with self._lock:
            self._ended.clear()


#: The logs of this process of pytest.
LOGS = Logs()


class KeepsLogs:
    """A plugin of pytest that writes the logs of a failed test."""

    def __init__(self, root: Path) -> None:
        self._results = Path(os.environ.get(RESULTS) or root / "test-results").absolute()

    def folder(self, nodeid: str) -> Path:
        """Return the folder for a test."""
        file, _, name = nodeid.partition("::")
        path = Path(file)
        tier = path.parts[1] if path.parts[0] == "tests" and len(path.parts) > 2 else path.parts[0]
        return self._results / tier / _as_folder_name(f"{path.stem}.{name}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Remove what an earlier run of the test has left; after the test, forget the processes that have ended."""
        shutil.rmtree(self.folder(item.nodeid), ignore_errors=True)
        try:
            return (yield)
        finally:
            LOGS.finish_test()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        """Write the logs if this phase (setup, call or teardown) has failed, and name their folder in the report."""
        report = yield
        if report.failed:
            folder = self.folder(item.nodeid)
            files = LOGS.read() | {
                Path(f"report-{report.when}.txt"): _describe(report).encode(errors="backslashreplace")
            }
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            lines = [f"in {folder}:", *sorted(f"  {name} ({len(content)} bytes)" for name, content in files.items())]
            report.sections.append(("Logs of this test", "\n".join(lines)))
        return report


def _describe(report: pytest.TestReport) -> str:
    """Return the traceback and all captured output."""
    sections = [f"--- {title} ---\n{content}" for title, content in report.sections]
    return "\n".join([report.longreprtext, *sections])


def _as_folder_name(text: str) -> str:
    """Return the text without characters that paths may not have. Different texts give different names."""
    name = re.sub(r"[^\w.,=+\[\]-]", "_", text)[:_LONGEST_NAME]
    return name if name == text else f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"

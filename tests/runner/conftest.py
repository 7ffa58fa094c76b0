"""A job folder made by hand, a service process, and a runner process between them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_gq.client.outputs.fold import fold
from tests.frozen import list_frozen
from tests.kept_logs import LOGS
from tests.patience import PATIENCE, scaled, until

PYTHON_KERNEL = {
    "name": "python3",
    "display_name": "Python 3",
    "language": "python",
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "env": {},
}


def whole_lines(file: Path) -> list[dict]:
    """Return the records of a file that another process may be writing, without a last line that is not whole yet."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class ServiceProcess:
    """A service as a process that can be killed and starts again at the same address."""

    def __init__(self) -> None:
        self.port = 0
        self.process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/jupyter-gq/"

    def _start(self, script: str, place: Path, **options: Any) -> None:
        command = [sys.executable, str(Path(__file__).with_name(script)), str(self.port), str(place)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.port = int(self.process.stdout.readline())
        self.process.stdout.close()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Service(ServiceProcess):
    """A service that stores what a runner sends."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def start(self) -> None:
        self._start("service_process.py", self.file)

    def pieces(self) -> list[dict]:
        return whole_lines(self.file)

    def beats(self) -> list[dict]:
        file = self.file.with_suffix(".beats")
        return whole_lines(file)

    def outputs(self, cell: str = "target") -> list[dict]:
        """Return the outputs that a client shows after folding all pieces."""
        return fold(self.pieces()).get(cell, [])

    def text(self, cell: str = "target") -> str:
        return "".join(output.get("text", "") for output in self.outputs(cell))


class Job:
    """A job folder and its runner processes."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder, self.service = folder, service
        self.cwd = folder.parent / "home"
        self.cells: list[tuple[str, str, str]] = []
        #: Tags of cells, by the id of the cell.
        self.tags: dict[str, list[str]] = {}
        self.kernel = deepcopy(PYTHON_KERNEL)
        self.env: dict[str, str] = {}
        self.returns: list[str] = []
        #: Further entries of the manifest.
        self.manifest: dict[str, Any] = {}
        self.max_result_bytes = 10_000_000
        self.umask = 0o022
        self.files: dict[str, bytes] = {}
        #: Times of change of these files, in seconds since the epoch.
        self.times: dict[str, float] = {}
        #: Contents of the variables that go along; `manifest["carried"]` lists them.
        self.pickles: list[bytes] = []
        self.process: subprocess.Popen | None = None

    def prefix(self, source: str, cell_id: str = "prefix") -> "Job":
        self.cells.append((cell_id, "prefix", source))
        return self

    def target(self, source: str, cell_id: str = "target") -> "Job":
        self.cells.append((cell_id, "target", source))
        return self

    def write_bundle(self) -> None:
        refs = {"prefix": [], "target": []}
        for cell_id, role, _ in self.cells:
            refs[role].append({"cell_id": cell_id, "source_hash": "0" * 64})
        cells = [
            {
                "cell_type": "code",
                "id": cell_id,
                "source": source,
                "metadata": {"jupyter_gq": {"job": "an older one"}, "tags": self.tags.get(cell_id, [])},
                "outputs": [],
                "execution_count": None,
            }
            for cell_id, _, source in self.cells
        ]
        manifest = {
            "mode": "replay",
            "server": "",
            "notebook_path": "a.ipynb",
            "cwd": str(self.cwd),
            "kernel": self.kernel,
            "environment": {},
            "prefix": refs["prefix"],
            "targets": refs["target"],
            "returns": self.returns,
            "files": list_frozen(self.files, self.times),
            **self.manifest,
        }
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cwd.mkdir(exist_ok=True)
        document = {"manifest": manifest, "notebook": notebook, "max_result_bytes": self.max_result_bytes}
        (self.folder / "bundle.json").write_text(json.dumps(document))
        packed = [*self.files.values(), *self.pickles]
        if packed and not (self.folder / "files.done").exists():
            (self.folder / "files.pack").write_bytes(b"".join(packed))

    def run_folder(self, run: int = 1, task: int = 0) -> Path:
        return self.folder / "runs" / str(run) / str(task)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.cwd),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "GQ_SERVICE_URL": self.service.url,
            "GQ_JOB_ID": "job-1",
            **self.env,
        }

    def start(self, run: int = 1, task: int = 0, after: int = 0, more: tuple[str, ...] = ()) -> subprocess.Popen:
        self.write_bundle()
        folder = self.run_folder(run, task)
        folder.mkdir(parents=True, exist_ok=True)
        LOGS.add("job", self.folder, "runs/*/*/log")
        (folder / "token").write_text("secret-of-the-job")
        command = [sys.executable, "-m", "jupyter_gq.runner", str(self.folder), "--run", str(run)]
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--task", str(task), *more],
                cwd=self.cwd if self.cwd.exists() else self.folder,
                env={**self.environment(), "GQ_LAST_SEQ": str(after)},
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=self.umask,
            )
        return self.process

    def finish(self, run: int = 1, task: int = 0, seconds: float = PATIENCE) -> dict:
        """Wait for the runner to end; return its result."""
        self.process.wait(scaled(seconds))
        return self.result(run, task)

    def run(self, run: int = 1, task: int = 0) -> dict:
        self.start(run, task)
        return self.finish(run, task)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def result(self, run: int = 1, task: int = 0) -> dict:
        file = self.run_folder(run, task) / "result.json"
        assert file.exists(), self.log(run, task)
        return json.loads(file.read_text())

    def log(self, run: int = 1, task: int = 0) -> str:
        return (self.run_folder(run, task) / "log").read_text()

    def notebook(self) -> dict:
        return json.loads((self.folder / "output.ipynb").read_text())

    def processes(self) -> list[psutil.Process]:
        """All living processes of the job's runs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("GQ_RUN_DIR", "").startswith(str(self.folder)):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for process in self.processes():
            process.kill()
        LOGS.release("job", self.folder)


def eventually(what: Callable[[], object], seconds: float = PATIENCE) -> object:
    """Wait until `what` is true; return what it returned."""
    return until(what, seconds=seconds, every=0.02)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "stored.jsonl")
    service.start()
    yield service
    service.kill()


@pytest.fixture
def job(tmp_path: Path, service: Service) -> Iterator[Job]:
    job = Job(tmp_path / "job-1", service)
    yield job
    job.clean_up()

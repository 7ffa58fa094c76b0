"""A cluster to run pods in: the service as a process, and process 1 of a pod as another, each in a fresh folder."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from jupyter_gq.client.outputs.fold import fold
from tests.kept_logs import LOGS
from tests.patience import PATIENCE, scaled

from .conftest import PYTHON_KERNEL, ServiceProcess, eventually

ROOT = Path(__file__).parents[2]


class Cluster(ServiceProcess):
    """The service, and the pods that a kubelet would run."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.pods: list[Pod] = []

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        LOGS.add("service", self.folder, "service.log")
        with (self.folder / "service.log").open("ab") as log:
            self._start("cluster_process.py", self.folder, stderr=log, cwd=ROOT, env=environment)

    def set_device_check(self, result: str, sentence: str = "A test says so.", *, required: bool = False) -> None:
        """Let the service answer with this device check for all tasks from now on."""
        check = {"result": result, "sentence": sentence, "required": required}
        new = self.folder / "device_check.new"
        new.write_text(json.dumps(check))
        new.rename(self.folder / "device_check")

    def close(self) -> None:
        for pod in self.pods:
            pod.clean_up()
        self.kill()
        LOGS.release("service", self.folder)

    def ask(self, path: str, method: str = "GET", body: Any = None, token: str = "ann") -> tuple[int, bytes]:
        request = urllib.request.Request(
            f"{self.url}api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=scaled(20)) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def get(self, path: str) -> Any:
        status, body = self.ask(path)
        assert status == 200, (path, body)
        return json.loads(body)

    def send(self, *cells: tuple[str, str, str], tasks: int = 1, continue_from: str = "", **manifest: Any) -> str:
        """Submit a job of these cells (id, role, source); return once its first run is launched."""
        refs = {role: [{"cell_id": c, "source_hash": "0" * 64} for c, r, _ in cells if r == role] for role in ROLES}
        bundle = {
            "manifest": {
                "notebook_path": "a.ipynb",
                "cwd": str(self.folder / "home"),
                "kernel": PYTHON_KERNEL,
                "prefix": refs["prefix"],
                "targets": refs["target"],
                **manifest,
            },
            "notebook": {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {},
                "cells": [
                    {
                        "cell_type": "code",
                        "id": cell,
                        "source": source,
                        "metadata": {},
                        "outputs": [],
                        "execution_count": None,
                    }
                    for cell, _, source in cells
                ],
            },
        }
        request = {"queue": "vision", "gpus": "1", "tasks": tasks, "continue_from": continue_from, "bundle": bundle}
        status, body = self.ask("jobs", "POST", request)
        assert status == 201, body
        job = json.loads(body)["id"]
        self.wait_for_run(job, 1)
        return job

    def wait_for_run(self, job: str, run: int) -> None:
        eventually(lambda: (self.folder / "launched" / f"{job}.{run}").exists())
        eventually(lambda: self.get(f"jobs/{job}")["run"] == run)

    def pod(self, job: str, run: int = 1, task: int = 0, **environment: str) -> "Pod":
        """Return a pod of a run, not started yet; one that is told to continue has the command for that."""
        pod = Pod(self, job, run, task, environment)
        self.pods.append(pod)
        return pod

    def over(self, pod: "Pod", outcome: str | None = None) -> None:
        """Report how a pod ended, as a kubelet would: by its own message, unless another outcome is given."""
        check = {"outcome": outcome, "sentence": ""} if outcome else pod.result()
        temporary = self.folder / f"ended.{pod.name}.tmp"
        temporary.write_text(json.dumps(check))
        temporary.rename(self.folder / "ended" / pod.name)

    def outputs(self, job: str) -> dict[str, list[dict]]:
        """Return the outputs of each cell that a client shows after folding all pieces."""
        return fold(self.pieces(job))

    def text(self, job: str, cell: str = "target") -> str:
        return "".join(output.get("text", "") for output in self.outputs(job).get(cell, []))

    def pieces(self, job: str) -> list[dict]:
        found: list[dict] = []
        while page := self.get(f"jobs/{job}/outputs?after={found[-1]['seq'] if found else 0}")["events"]:
            found += page
        return found

    def log(self, job: str) -> str:
        return self.ask(f"jobs/{job}/log")[1].decode()


ROLES = ("prefix", "target")


class Pod:
    """Process 1 of a pod, with the folders that are mounted into it."""

    def __init__(self, cluster: Cluster, job: str, run: int, task: int, environment: dict[str, str]) -> None:
        self.cluster, self.job, self.name = cluster, job, f"{job}.{run}"
        self.folder = cluster.folder / "pods" / f"{job}.{run}.{task}"
        self.folder.mkdir(parents=True)
        (self.folder / "home").mkdir()
        (self.folder / "sa-token").write_text(f"pod:{job}:{run}:{task}")
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder / "home"),
            "GQ_JOB_ID": job,
            "GQ_RUN": str(run),
            "GQ_TASK": str(task),
            "GQ_SERVICE_URL": cluster.url,
            "GQ_TOKEN_FILE": str(self.folder / "sa-token"),
            "GQ_JOB_DIR": str(self.folder / "job"),
            "GQ_TERMINATION_LOG": str(self.folder / "termination-log"),
            "GQ_CHECKPOINT_DIR": str(self.folder / "checkpoint"),
            "GQ_STOP_GRACE": "30",
            **environment,
        }
        self.process: subprocess.Popen | None = None

    def start(self) -> "Pod":
        command = "--pod-continuing" if "GQ_CONTINUE_FROM" in self.environment else "--pod"
        LOGS.add(f"pods/{self.name}", self.folder, "container.log", "termination-log")
        with (self.folder / "container.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_gq.runner", command],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def finish(self, seconds: float = PATIENCE) -> dict:
        """Wait for the end of the pod; return its termination message."""
        self.process.wait(scaled(seconds))
        return self.result()

    def run(self) -> dict:
        return self.start().finish()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill everything that runs in the pod, as if its node were gone."""
        processes = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # a child may end by itself meanwhile
                process.kill()
        self.process.wait()
        psutil.wait_procs(processes[1:], timeout=scaled(20))

    def message(self) -> str:
        file = self.folder / "termination-log"
        assert file.exists(), self.log()
        return file.read_text()

    def result(self) -> dict:
        return json.loads(self.message())

    def log(self) -> str:
        return (self.folder / "container.log").read_text()

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        LOGS.release(f"pods/{self.name}", self.folder)

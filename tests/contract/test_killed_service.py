"""`kill -9` of the real service while a job runs: the job goes on, its output has no gap, and no second copy starts."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from jupyter_gq.app import main
from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import JobSubmission
from tests.api.hubs import Hub
from tests.cells import KEEPS
from tests.kept_logs import LOGS
from tests.patience import PATIENCE, eventually, scaled
from tests.ports import claim_port
from tests.replaced_files import write_at_once

CONFIG = """
c.SchedulerService.check_invariants = True
c.SimulatedDevices.mode = "always"
c.SimulatedDevices.devices = "2x A100-40GB"
c.TrainingQueues.queues = {"vision": {"quota": 1}}
"""
#: A cell that counts until it is enough, and says who it is.
COUNTS = f"""{KEEPS}
import os, pathlib, time
print("pid", os.getpid(), flush=True)
number = 0
while not pathlib.Path("enough").exists():
    print("n", number, flush=True)
    number += 1
    keep(pathlib.Path("count"), number)
    time.sleep(0.05)
"""


class RealService:
    """The service's own process, on a port and a state folder that outlive it."""

    def __init__(self, folder: Path, hub: Hub, settings: str = "") -> None:
        """Write the configuration, with these lines after the usual ones."""
        self._folder, self._hub = folder, hub
        self.url = f"http://127.0.0.1:{claim_port()}"
        (folder / "jupyterhub_config.py").write_text(CONFIG + settings)
        self.process: subprocess.Popen | None = None

    def start(self, **more: str) -> None:
        """Start the process, with more variables in its environment."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB_")}
        environment |= {
            "JUPYTERHUB_SERVICE_URL": self.url,
            "JUPYTERHUB_SERVICE_PREFIX": "/services/jupyter-gq/",
            "JUPYTERHUB_API_URL": self._hub.url,
            "JUPYTERHUB_API_TOKEN": "service",
            "GQ_TEST_WORLD": str(self._folder),
            **more,
        }
        command = [sys.executable, "-m", "jupyter_gq.app", "service", "--config", "jupyterhub_config.py"]
        LOGS.add("service", self._folder, "service.log", "state/jobs/*/runs/*/*/log")
        with (self._folder / "service.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        return (self._folder / "service.log").read_text()

    def runners(self, job: str) -> list[int]:
        """Processes that run that job, without the supervisor above each, which has the same command."""
        found = {}
        for process in psutil.process_iter():
            try:
                command, parent = process.cmdline(), process.ppid()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if "jupyter_gq.runner" in command and any(job in word for word in command):
                found[process.pid] = parent
        return [pid for pid in found if pid not in found.values()]

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        while self._kill_jobs():  # one may have started another meanwhile
            pass
        LOGS.release("service", self._folder)

    def _kill_jobs(self) -> bool:
        """Kill the processes of jobs; return whether there were any."""
        found = False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if f"{self._folder}/" in " ".join(process.cmdline()) and process.pid != os.getpid():
                    found = True
                    process.kill()
        return found


@contextlib.asynccontextmanager
async def running_service(folder: Path, settings: str = "") -> AsyncIterator[RealService]:
    """A started service and its hub, which end with all that they started. `settings`: more lines of configuration."""
    hub = Hub()
    await hub.start()
    service = RealService(folder, hub, settings)
    service.start()
    try:
        yield service
    finally:
        service.clean_up()
        await hub.stop()


@pytest_asyncio.fixture
async def service(tmp_path):
    async with running_service(tmp_path) as service:
        yield service


def a_job(folder: Path) -> JobSubmission:
    kernel = {"name": "python3", "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": COUNTS, "outputs": [], "execution_count": None}
    manifest = {
        "notebook_path": "count.ipynb",
        "cwd": str(folder),
        "kernel": kernel,
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return JobSubmission.model_validate(
        {"queue": "vision", "gpus": "1", "bundle": {"manifest": manifest, "notebook": notebook}}
    )


async def until(question, what, service):
    """Ask until the answer is true; a service that is not up yet has not answered."""

    async def answered():
        with contextlib.suppress(ServiceUnavailable):
            return await question()

    return await eventually(answered, lambda: f"{what}\n{service.log()}", every=0.1)


@pytest.mark.asyncio
async def test_a_job_outlives_its_service(service, tmp_path):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")

    async def numbers(job, at_least):
        text = await told(job)
        found = [int(line.split()[1]) for line in text.splitlines() if line.startswith("n ")]
        return found if len(found) >= at_least else None

    def counted():
        return int((tmp_path / "count").read_text())

    async def told(job):
        page = await client.outputs(job, 0)
        return "".join(e["output"].get("text", "") for e in page.events if e.get("op") == "append")

    await until(client.health, "the service", service)
    view, _ = await client.submit(a_job(tmp_path), "key-1")
    await until(lambda: numbers(view.id, 3), "output before the kill", service)
    before = service.runners(view.id)
    assert len(before) == 1

    service.kill()
    killed_at = counted()
    while counted() < killed_at + 10:  # output that nobody takes piles up with the runner
        await asyncio.sleep(0.05)
    assert service.runners(view.id) == before
    service.start()

    await until(lambda: numbers(view.id, killed_at + 15), "output after the restart", service)
    assert service.runners(view.id) == before
    again, created = await client.submit(a_job(tmp_path), "key-1")
    assert (again.id, created) == (view.id, False)

    (tmp_path / "enough").touch()

    async def done():
        return (await client.job(view.id)).phase == "done"

    await until(done, "the end of the job", service)
    final = await client.job(view.id)
    page = await client.outputs(view.id, 0)
    assert final.run == 1
    assert await numbers(view.id, 1) == list(range(counted()))
    assert [event["seq"] for event in page.events] == list(range(1, len(page.events) + 1))
    assert (await told(view.id)).count("pid ") == 1
    assert page.finished
    assert service.runners(view.id) == []
    client.close()


@pytest.mark.asyncio
async def test_a_bad_config_file_keeps_the_service_going_and_says_where(service, tmp_path):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    await until(client.health, "the service", service)
    assert (await client.me()).quota == "0.25"
    file = tmp_path / "jupyterhub_config.py"
    write_at_once(file, CONFIG + "c.FixedQuota.default = 1.5\n")

    admin = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")

    async def refused():
        policy = (await admin.health()).policy
        return policy if policy != "ok" else None

    assert "line 6: c.FixedQuota.default = 1.5" in await until(refused, "the message", service)
    assert (await client.me()).quota == "0.25"
    service.kill()
    service.start()
    assert "line 6: c.FixedQuota.default = 1.5" in await until(refused, "the message after a restart", service)
    assert (await client.me()).quota == "0.25"
    admin.close()
    write_at_once(file, CONFIG + 'c.FixedQuota.default = "0.5"\n')

    async def raised():
        return (await client.me()).quota == "0.5"

    await until(raised, "the new quota", service)
    with pytest.raises(ServiceError):
        await client.job("job-none")
    client.close()


@pytest.mark.asyncio
async def test_a_config_file_that_hangs_is_said_and_neither_a_later_one_nor_the_end_waits_for_it(service, tmp_path):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")
    await until(client.health, "the service", service)
    file, begun = tmp_path / "jupyterhub_config.py", tmp_path / "begun"
    hangs = f"open({str(begun)!r}, 'w').close(); import threading; threading.Event().wait()\n"
    write_at_once(file, CONFIG + hangs)

    async def refused():
        policy = (await client.health()).policy
        return policy if policy != "ok" else None

    said = await until(refused, "the message", service)
    assert said.startswith(f"{file}, line 6: the file has not been executed and checked within 20 s")
    write_at_once(file, CONFIG + 'c.FixedQuota.default = "0.5"\n')

    async def raised():
        return (await client.me()).quota == "0.5"

    await until(raised, "the new quota", service)
    assert (await client.health()).policy == "ok"
    begun.unlink()
    write_at_once(file, CONFIG + hangs)
    await eventually(begun.exists, service.log)
    client.close()
    service.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(service.process.wait, scaled(PATIENCE)) == 0


def test_a_service_whose_first_config_is_bad_does_not_start(tmp_path):
    (tmp_path / "jupyterhub_config.py").write_text("c.FixedQuota.default = -1\n")
    command = [sys.executable, "-m", "jupyter_gq.app", "service", "--config", "jupyterhub_config.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=scaled(PATIENCE))
    assert ended.returncode == 1
    assert "line 1: c.FixedQuota.default = -1: it is negative. Use 0 or more GPUs." in ended.stderr


@pytest.mark.asyncio
async def test_a_job_that_a_restored_backup_lacks_goes_on_and_keeps_its_device(service, tmp_path):
    ann = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    admin = ServiceClient(f"{service.url}/services/jupyter-gq/", "root")
    await until(ann.health, "the service", service)
    backup, database = tmp_path / "backup.sqlite", tmp_path / "jupyter-gq-state" / "service.sqlite"
    assert main(["backup", str(backup), "--database", str(database)]) == 0
    view, _ = await ann.submit(a_job(tmp_path), "key-1")

    async def counts():
        return (tmp_path / "count").exists() and int((tmp_path / "count").read_text()) > 3

    await until(counts, "the job at work", service)
    runners = service.runners(view.id)
    service.kill()
    assert main(["restore", str(backup), str(database), "--replace", str(tmp_path / "kept.sqlite")]) == 0
    service.start()

    async def noted():
        return [device for device in (await admin.devices()).devices if device.note]

    (device,) = await until(noted, "the note at the device", service)
    assert f"{view.id} of ann runs and is in no record; it is left alone, with its devices (processes " in device.note
    assert not device.healthy
    assert [each.note for each in (await ann.devices()).devices] == ["", ""], "other people's work is for admins"
    assert service.runners(view.id) == runners
    counted = int((tmp_path / "count").read_text())

    async def counts_on():
        return int((tmp_path / "count").read_text()) > counted + 20

    await until(counts_on, "the job still at work", service)
    (tmp_path / "enough").touch()

    async def free():
        return all(device.healthy and not device.note for device in (await admin.devices()).devices)

    await until(free, "the device free again", service)
    assert service.runners(view.id) == []
    assert not list((tmp_path / "jupyter-gq-state" / "runs").glob("*.json")), "an ended run is forgotten"
    ann.close()
    admin.close()


def damaged(file):
    file.write_bytes(b"not a database!!" + file.read_bytes()[16:])


def with_a_bad_page(file):
    """The page holds outputs, which a service that starts does not read."""
    with closing(sqlite3.connect(file)) as database:
        ((page,),) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'outputs'")
        ((size,),) = database.execute("PRAGMA page_size")
    with file.open("r+b") as content:
        content.seek((page - 1) * size)
        content.write(os.urandom(64))


def cut_in_half(file):
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("happens", "sentence"),
    [
        (damaged, "is damaged (file is not a database)"),
        (with_a_bad_page, "is damaged ("),
        (cut_in_half, "is damaged ("),
        (Path.unlink, "is missing or empty, but"),
        (lambda file: file.write_bytes(b""), "is missing or empty, but"),
    ],
)
async def test_a_service_without_its_database_does_not_begin_anew(service, tmp_path, happens, sentence):
    client = ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")
    await until(client.health, "the service", service)
    view, _ = await client.submit(a_job(tmp_path), "key-1")
    (tmp_path / "enough").touch()

    async def done():
        return (await client.job(view.id)).phase == "done"

    await until(done, "the end of the job", service)
    service.kill()
    database = tmp_path / "jupyter-gq-state" / "service.sqlite"
    for log in ("service.sqlite-wal", "service.sqlite-shm"):
        database.with_name(log).unlink(missing_ok=True)
    happens(database)
    service.start()
    assert await asyncio.to_thread(service.process.wait, scaled(PATIENCE)) == 1
    assert f"The scheduler service cannot start. The database {database} {sentence}" in service.log()
    assert "jupyter-gq restore BACKUP" in service.log()
    assert "Traceback" not in service.log()
    client.close()

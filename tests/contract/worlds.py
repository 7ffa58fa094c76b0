"""The backends under test, each with everything around it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from jupyter_gq.backends.local import LocalBundles, LocalOptions, LocalRuns
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Launch, Phase
from jupyter_gq.backends.servers import ServerRuns
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.simulated.devices import SimulatedProbe, parse_devices
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.builders import a_job, a_notebook
from tests.kept_logs import LOGS
from tests.kubernetes.waiting import eventually

STANDIN = Path(__file__).with_name("standin.py")


class MovableClock:
    """A clock that can be moved ahead of the machine's time, and set as a wall clock."""

    def __init__(self):
        self.ahead = self.set_by = 0.0

    def now(self):
        return time.time() + self.ahead + self.set_by  # noqa: TID251 - what is observed are real processes

    def awake(self):
        return time.monotonic() + self.ahead  # noqa: TID251 - what is observed are real processes


async def read_when_there(file):
    """Wait until a stand-in has written a file; return its content."""
    return await eventually(lambda: file.exists() and file.read_text(), file.name)


def runs(pid):
    process = read_process(pid)
    return process is not None and not process.dead


class World:
    """The actions of the tests of every backend; a subclass defines them."""

    #: Seconds that a test gives to what is stopped; they pass with the clock, so they may be many.
    grace = 30

    def __init__(self, folder):
        self.folder = folder
        self.clock = MovableClock()
        self.backend = self.new_backend()

    async def observed(self, workload):
        """Return the backend's only observation of a workload; None if there is none."""
        found = [o for o in await self.backend.observe() if o.workload == workload.id and o.run == workload.run]
        assert len(found) <= 1
        return found[0] if found else None

    async def end(self, workload):
        async def ended():
            seen = await self.observed(workload)
            return seen if seen and seen.phase is Phase.ENDED else None

        return await eventually(ended, f"the end of {workload.id}")

    async def running(self, workload):
        async def seen():
            found = await self.observed(workload)
            return found if found and found.phase is Phase.RUNNING else None

        return await eventually(seen, f"{workload.id} running")


class LocalWorld(World):
    """Training workloads as local processes."""

    def __init__(self, folder, owner="ann", service_url="http://127.0.0.1:1/services/jupyter-gq/", **options):
        self.owner = owner
        #: What suspends the runs of the next backend.
        self.shares = None
        self.service_url = service_url
        self.options = options
        super().__init__(folder)
        LOGS.add("jobs", folder, "state/jobs/*/runs/*/*/log")
        self.bundles = LocalBundles(folder / "state", system_users=options.get("system_users", False))

    def new_backend(self):
        options = {"command": (sys.executable, "-P", str(STANDIN)), "node_name": "box", **self.options}
        probe = SimulatedProbe(parse_devices("4x A100-40GB"), why="test.", now=self.clock.now)
        return LocalRuns(
            LocalOptions(state_dir=self.folder / "state", **options),
            probe=probe,
            clock=self.clock,
            service_url=self.service_url,
            shares=self.shares,
        )

    def workload(self, id=None, run=1, name="digits", **fields):
        return a_job(name, "vision", id=id or f"job-{secrets.token_hex(4)}", run=run, owner=self.owner, **fields)

    def job(self, workload):
        return self.folder / "state/jobs" / workload.id

    def task(self, workload, task=0):
        return self.job(workload) / "runs" / str(workload.run) / str(task)

    def prepare(self, workload, plan=None, manifest=None):
        self.bundles.write(workload.id, workload.owner, {"manifest": manifest or {}, "notebook": {}}, 10**6)
        file = self.job(workload) / "plan"
        file.write_text(json.dumps(plan or {}))
        file.chmod(0o644)

    async def launch(self, workload, plan=None, **fields):
        """Launch a workload, and wait until each of its tasks has started."""
        if not self.job(workload).exists():
            self.prepare(workload, plan)
        await self.request(workload, **fields)
        for task in range(workload.tasks):
            await read_when_there(self.task(workload, task) / "ready")

    async def request(self, workload, environment=None, token="secret", last_seq=0, **detail):
        """Launch a workload without waiting for its tasks."""
        environment = {"GQ_TEST": str(self.folder), **(environment or {})}
        record = WorkloadDetail(**detail)
        launch = Launch(workload=workload, detail=record, environment=environment, token=token, last_seq=last_seq)
        await self.backend.launch(launch)

    def leader(self, workload, task=0):
        return int((self.task(workload, task) / "ready").read_text())

    def kernel(self, workload, task=0):
        return int((self.task(workload, task) / "child").read_text())

    def clean_up(self):
        kill_marked(self.folder)
        LOGS.release("jobs", self.folder)


class ServersWorld(World):
    """Notebook servers; `HearsEverything` plays the Hub."""

    def __init__(self, folder):
        self.hub = HearsEverything()
        self.processes = []
        super().__init__(folder)

    def new_backend(self):
        return ServerRuns(
            stopper=self.hub,
            clock=self.clock,
            attach_timeout=180.0,
            hub_processes=lambda: {os.getpid()},
        )

    def workload(self, id=None, run=1, **fields):
        return a_notebook("ann", id=id or f"nb-{secrets.token_hex(4)}", run=run, **fields)

    async def launch(self, workload, plan=None, user="ann", **fields):
        await self.backend.launch(Launch(workload=workload, **fields))
        if (self.folder / workload.id).exists():
            return
        process = await self.start(workload, plan, user)
        self.backend.attach(workload.id, workload.run, process.pid, psutil.Process(process.pid).create_time())

    async def start(self, workload, plan=None, user="ann"):
        """Start a process as the Hub's spawner does; return it."""
        place = self.folder / workload.id
        place.mkdir()
        (place / "plan").write_text(json.dumps(plan or {}))
        environment = {**os.environ, "JUPYTERHUB_USER": user, "JUPYTER_GQ_TICKET": workload.id}
        environment["GQ_TEST"] = str(self.folder)
        command = [sys.executable, str(STANDIN), str(place)]
        # The Hub is another process; here its short fork holds the loop up, which nobody minds.
        process = subprocess.Popen(  # noqa: ASYNC220
            command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL
        )
        self.processes.append(process)
        self.hub.pids[workload.name] = process.pid
        await read_when_there(place / "ready")
        return process

    def leader(self, workload, task=0):
        return int((self.folder / workload.id / "ready").read_text())

    def kernel(self, workload, task=0):
        return int((self.folder / workload.id / "child").read_text())

    def clean_up(self):
        for process in self.processes:
            process.kill()
            process.wait()
        kill_marked(self.folder)


class HearsEverything:
    """A stopper that stops servers at once, as a Hub would."""

    def __init__(self):
        self.pids = {}
        self.asked = []

    async def stop(self, user, server):
        self.asked.append((user, server))
        if server in self.pids:
            os.kill(self.pids[server], signal.SIGTERM)


def kill_marked(folder):
    """Kill the processes that a failed test left: those that were started with this folder as `GQ_TEST`."""
    table = ProcessTable.read()
    for pid in table.find_marked("GQ_TEST", str(folder)):
        table.signal([pid], signal.SIGKILL)

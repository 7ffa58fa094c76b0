"""Two services of one installation, on one PostgreSQL and one API server: one acts, the other takes its place."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import pytest_asyncio
import sqlalchemy as sa
from kubernetes.client import CoordinationV1Api

from tests.api.hubs import Hub
from tests.contract.postgresql import PostgresServer, programs_or_skip
from tests.kept_logs import LOGS
from tests.kubernetes.waiting import eventually
from tests.patience import scaled
from tests.ports import claim_port

pytestmark = pytest.mark.asyncio

CONFIG = """
import os
c.SchedulerService.backend = "kubernetes"
c.SchedulerService.database_url = os.environ["DATABASE"]
c.KubernetesBackend.kubeconfig = {kubeconfig!r}
c.KubernetesBackend.lease_duration = {lease}
c.KubernetesBackend.installation = {release!r}
c.KubernetesBackend.hub_namespace = {hub!r}
c.Pools.pools = {{"build": {{"nodes": {{"pool": "build"}}}}, "train": {{"nodes": {{"pool": "train"}}}}}}
c.Pools.build = "build"
c.Pools.train = "train"
c.FixedQuota.default = "0.25"
c.TrainingQueues.queues = {{"vision": {{"quota": 1}}}}
"""


class Service:
    """One process, as a pod of the Deployment would run it."""

    def __init__(self, folder, hub, name, database):
        self.url = f"http://127.0.0.1:{claim_port()}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("JUPYTERHUB_")}
        environment |= {
            "JUPYTERHUB_SERVICE_URL": self.url,
            "JUPYTERHUB_SERVICE_PREFIX": "/services/jupyter-gq/",
            "JUPYTERHUB_API_URL": hub.url,
            "JUPYTERHUB_API_TOKEN": "service",
            "POD_NAME": name,
            "DATABASE": database,
        }
        command = [sys.executable, "-m", "jupyter_gq.app", "service", "--config", "jupyterhub_config.py"]
        self._log = folder / f"{name}.log"
        LOGS.add(f"service-{name}", self._log.parent, self._log.name)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    def log(self):
        return self._log.read_text()

    async def ask(self, path):
        """Status and answer; (0, {}) when nobody answers."""

        def fetch():
            try:
                address = f"{self.url}/services/jupyter-gq/api/v1/{path}"
                request = urllib.request.Request(address, headers={"Authorization": "token ann"})
                with urllib.request.urlopen(request, timeout=scaled(5)) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)
            except OSError:
                return 0, {}

        return await asyncio.to_thread(fetch)

    async def is_ready(self):
        assert self.process.poll() is None, self.log()
        return (await self.ask("ready"))[0] == 200

    async def waits_for(self, name):
        """It says that it is not ready because that one leads."""
        status, problem = await self.ask("ready")
        return status == 503 and problem["message"].startswith(f"{name}_")

    async def says(self, words):
        """It is not ready, and that is why."""
        assert self.process.poll() is None, self.log()
        status, problem = await self.ask("ready")
        return status == 503 and words in problem["message"]

    async def ended(self):
        """Its exit code, once it has ended."""
        await eventually(lambda: self.process.poll() is not None, self.log, seconds=60)
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.wait()
        LOGS.release(f"service-{self._log.stem}", self._log.parent)


class Wire:
    """The way of one service to the database, which can be cut."""

    def __init__(self, address):
        self.address, self.ways, self.server, self.port, self.is_cut = address, set(), None, claim_port(), False

    async def mend(self):
        self.is_cut = False
        self.server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    async def cut(self):
        self.is_cut = True
        self.server.close()
        for writer in self.ways:
            writer.transport.abort()
        await self.server.wait_closed()

    async def _carry(self, reader, writer):
        there, back = await asyncio.open_connection(*self.address)
        if self.is_cut:  # meanwhile
            for each in (writer, back):
                each.transport.abort()
            return
        mine = {writer, back}
        self.ways |= mine
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            self.ways -= mine


async def _pass_on(reader, writer):
    with contextlib.suppress(OSError):
        while said := await reader.read(65536):
            writer.write(said)
            await writer.drain()
    writer.close()


@pytest.fixture
def postgresql():
    with PostgresServer(programs_or_skip()) as server:
        server.start()
        yield server


@pytest.fixture
def lease():
    """Seconds; shorter than usual where nothing else is slow. A slow machine renews later."""
    return round(scaled(5))


@pytest_asyncio.fixture
async def start(control_plane, namespace_set, postgresql, tmp_path, lease):
    """Start a service of that name."""
    content = CONFIG.format(
        lease=lease,
        kubeconfig=str(control_plane.kubeconfig()),
        release=namespace_set.release,
        hub=namespace_set.hub,
    )
    (tmp_path / "jupyterhub_config.py").write_text(content)
    usual, hub, started = postgresql.new_database(), Hub(), []
    await hub.start()

    def make(name, through=None):
        """Its way to the database goes through that wire, if there is one."""
        database = usual
        if through is not None:
            url = sa.make_url(postgresql.tcp_url(sa.make_url(usual).database))
            database = url.set(host="127.0.0.1", port=through.port).render_as_string(hide_password=False)
        started.append(Service(tmp_path, hub, name, database))
        return started[-1]

    yield make
    for service in started:
        service.kill()
    await hub.stop()


async def test_one_acts_and_who_comes_back_from_the_dead_ends(start, control_plane, namespace_set):
    first = start("first")
    await eventually(first.is_ready, first.log, seconds=60)
    second = start("second")
    await eventually(lambda: second.waits_for("first"), second.log, seconds=60)
    assert (await second.ask("health"))[0] == 200, "waiting is no fault"

    first.process.send_signal(signal.SIGSTOP)  # its machine hangs, and comes back when another has its place
    await eventually(second.is_ready, second.log, seconds=60)
    first.process.send_signal(signal.SIGCONT)
    assert await first.ended() == 1
    assert "leads now, so this one ends" in first.log() or "has taken over" in first.log()

    second.process.terminate()
    assert await second.ended() == 0
    assert not holder(control_plane, namespace_set), "it was given back, so that the next one need not wait"


@pytest.mark.parametrize(
    "lease", [round(scaled(15))], ids=["usual"]
)  # the usual one: it has to outlast what a silent database costs
async def test_while_the_database_is_frozen_nobody_acts_and_afterwards_the_same_one_goes_on(
    start, control_plane, namespace_set, postgresql
):
    first = start("first")
    await eventually(first.is_ready, first.log, seconds=60)
    second = start("second")
    await eventually(lambda: second.waits_for("first"), second.log, seconds=60)
    leader = holder(control_plane, namespace_set)
    mark = control_plane.mark()
    with postgresql.frozen():
        await eventually(lambda: first.says("does not answer"), first.log, seconds=20)
        # The loop is free: what needs no database is answered, what needs it is refused at once.
        for _ in range(3):
            assert (await first.ask("health"))[0] == 200
            assert (await first.ask("jobs"))[0] == 503
        assert await second.waits_for("first"), "who leads is as well off as another would be"
    await eventually(first.is_ready, first.log, seconds=20)
    assert holder(control_plane, namespace_set) == leader
    assert "leads now" not in first.log()
    lost = control_plane.requests(mark, resource="leases", verb="update", status=409)
    assert lost == [], "nobody tried to take its place"


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_who_takes_over_while_the_database_is_frozen_waits_for_it(start, postgresql, end):
    first = start("first")
    await eventually(first.is_ready, first.log, seconds=60)
    second = start("second")
    await eventually(lambda: second.waits_for("first"), second.log, seconds=60)
    with postgresql.frozen():
        await eventually(lambda: first.says("does not answer"), first.log, seconds=20)
        if end == "kill":
            first.kill()
        else:
            first.process.terminate()
            assert await first.ended() == 0, "in order, and in time"
        await eventually(lambda: second.says("does not answer"), second.log, seconds=60)
        assert (await second.ask("health"))[0] == 200, "a restart would help nobody"
    await eventually(second.is_ready, second.log, seconds=20)


@pytest_asyncio.fixture
async def wire(postgresql):
    url = sa.make_url(postgresql.tcp_url("postgres"))
    made = Wire((url.host, url.port))
    await made.mend()
    yield made
    await made.cut()


async def test_who_alone_does_not_reach_the_database_makes_way_and_stands_again_when_it_does(start, wire, lease):
    """After four times the duration of the lease. It is the same process all the time."""
    first = start("first", through=wire)
    await eventually(first.is_ready, first.log, seconds=60)
    second = start("second")
    await eventually(lambda: second.waits_for("first"), second.log, seconds=60)
    await wire.cut()
    await eventually(lambda: first.says("does not answer"), first.log, seconds=20)
    await eventually(second.is_ready, lambda: first.log() + second.log(), seconds=25, promised=4 * lease)
    await eventually(lambda: first.waits_for("second"), first.log, seconds=20)

    second.kill()
    await eventually(lambda: first.says("does not answer"), first.log, seconds=30)
    assert (await first.ask("health"))[0] == 200, "a restart would help nobody"
    await wire.mend()
    await eventually(first.is_ready, first.log, seconds=30)
    first.process.terminate()
    assert await first.ended() == 0
    assert "so it steps back" in first.log()


def holder(plane, made):
    """Who holds the lease."""
    lease = CoordinationV1Api(plane.client()).read_namespaced_lease(f"{made.release}-gq-service", made.hub)
    return lease.spec.holder_identity

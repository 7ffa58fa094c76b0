"""The agent of a node against the real API: it connects, waits for orders, and survives every outage."""

import asyncio
import json
import logging

import pytest
import pytest_asyncio
from tornado.netutil import bind_sockets

from jupyter_gq import __version__
from jupyter_gq.agent.agent import Agent
from jupyter_gq.agent.backoff import ExponentialBackoff
from jupyter_gq.agent.observer import NodeObserver
from jupyter_gq.agent.service_connection import ServiceConnection
from jupyter_gq.api.app import make_server
from jupyter_gq.client.agents import AgentCommand, AgentOrders, AgentProcess, AgentReport, AgentShare, WatchedPod
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedClock, FixedSettings, RunsPods, SharedBundles, a_node
from tests.patience import Deadline, eventually
from tests.ports import claim_port
from tests.serving import application_of

from .conftest import PREFIX
from .fakes import authenticator
from .world import CONFIG

pytestmark = pytest.mark.asyncio

POD = WatchedPod(pod_uid="u", namespace="train", pod="gq-job-1-1-0")


def a_kill(id="k1", *, pid=7, pod="u", valid_for=15.0):
    return AgentCommand(id=id, kind="kill", pod_uid=pod, process=AgentProcess(pid=pid, ticks=5), valid_for=valid_for)


class FineNode:
    """A node that reports a share of each watched pod and cannot suspend."""

    def observe(self, watch):
        return AgentReport(
            probe="OK", shares=[AgentShare(pod_uid=pod.pod_uid) for pod in watch], missing={"suspend": "It cannot."}
        )


class NodeWithADefect(FineNode):
    """A node whose first observation fails because of a defect in the agent."""

    def __init__(self):
        self.broke = False

    def observe(self, watch):
        if not self.broke:
            self.broke = True
            raise RuntimeError("a defect")
        return super().observe(watch)


class NodeThatLosesItsDriver(FineNode):
    """A node whose driver and kubelet are missing while `lost` is True."""

    lost = False

    def observe(self, watch):
        report = super().observe(watch)
        if not self.lost:
            return report
        missing = {**report.missing, "kubelet": "It is away."}
        return report.model_copy(update={"probe": "LOST", "detail": "It fell off the bus.", "missing": missing})


class RefusesSome:
    """A sender of signals that notes each command, and refuses those about the pods in `refuses`."""

    def __init__(self):
        self.sent, self.refuses = [], {}

    def send(self, command):
        self.sent.append((command.kind, command.process.pid))
        return self.refuses.get(command.pod_uid, "")


class DeafToResults(RunsPods):
    """A backend that fails at this many of the first reports with results."""

    deaf_to_results = 0

    def accept_report(self, node, report):
        if report.done and self.deaf_to_results:
            self.deaf_to_results -= 1
            raise BackendError("It did not listen.")
        return super().accept_report(node, report)


class World:
    """A service that accepts reports, and one agent that connects to it."""

    def __init__(self, folder, serve):
        self.clock, self.serve = FixedClock(), serve
        nodes = (a_node(2, name="node-a"),)
        self.machine = DeafToResults(self.clock, nodes)
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self.controller = Controller(
            store=self.store,
            backends=(self.machine,),
            settings=FixedSettings(build_settings(CONFIG, nodes)),
            clock=self.clock,
            bundles=SharedBundles(),
        )
        self.token = folder / "token"
        self.token.write_text("agent\n")
        self.tasks, self.signals = [], RefusesSome()

    async def start(self, **more):
        return (await self.serve(self.controller, pods=authenticator(), **more)).url

    def connect(self, url, *, name="node-a", node=None, every=20.0, shares=None):
        service = ServiceConnection(url, self.token, name, longest_wait=every)
        self.backoff = ExponentialBackoff(lambda: 1.0, first=0.02, longest=0.05)
        observer = NodeObserver(node or FineNode(), 10)
        agent = Agent(observer, self.signals, service, self.backoff, report_every=every, shares=shares)
        self.tasks.append(asyncio.create_task(agent.run()))

    @property
    def reports(self):
        return [report for _, report in self.machine.heard]

    def order(self, **orders):
        self.machine.told["node-a"] = AgentOrders(**orders)
        self.controller.wake()

    async def heard(self, count):
        await until(lambda: len(self.machine.heard) >= count)


async def until(condition):
    await eventually(condition, every=0.005)


@pytest_asyncio.fixture
async def world(tmp_path, serve):
    world = World(tmp_path, serve)
    yield world
    for task in world.tasks:
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)
    world.store.close()


async def test_agent_reports_for_its_node_and_follows_new_orders_at_once(world):
    world.connect(await world.start())
    await world.heard(2)
    assert {node for node, _ in world.machine.heard} == {"node-a"}
    assert {report.release for report in world.reports} == {__version__}
    at_once = Deadline(5)
    world.order(watch=[POD])
    await until(lambda: [share.pod_uid for share in world.reports[-1].shares] == ["u"])
    assert not at_once.is_over(), "the agent did not wait for the end of its 20 seconds"


async def test_without_new_orders_the_agent_reports_once_in_each_interval(world):
    world.connect(await world.start(), every=0.3)
    await world.heard(2)
    begun = asyncio.get_running_loop().time()
    await world.heard(6)
    assert asyncio.get_running_loop().time() - begun > 0.9


@pytest.mark.parametrize(("most", "asked"), [(20.0, 0.3), (0.3, 3600.0)])
async def test_service_may_shorten_the_interval_and_not_lengthen_it(world, most, asked):
    world.machine.told["node-a"] = AgentOrders(report_every=asked)
    world.connect(await world.start(), every=most)
    await world.heard(4)


async def test_neither_side_sends_what_another_release_may_not_know(world):
    """Models refuse unknown fields, so a newer field that has its default is left out."""
    service = ServiceConnection(await world.start(), world.token, "node-a", longest_wait=1)
    sent, request = [], service._transport.request

    async def noted(method, path, **more):
        answer = await request(method, path, **more)
        sent.append((json.loads(more["body"]), json.loads(answer.body)))
        return answer

    service._transport.request = noted
    await service.report(AgentReport(probe="OK", shares=[AgentShare(pod_uid="u")]), 0)
    service.close()
    ((report, orders),) = sent
    assert "suspension" not in report["shares"][0]
    assert orders == {"watch": [], "commands": [], "report_every": 5.0}


class SharesOnTheirWay:
    """Shares that never arrive, and note the orders that they follow."""

    are_moving = True

    def __init__(self):
        self.followed, self.recovered = [], 0

    def recover(self):
        self.recovered += 1

    def add_suspensions(self, report):
        return report.model_copy(update={"detail": "With shares."})

    def follow(self, orders, age):
        assert age >= 0
        self.followed.append(orders)


async def test_agent_reports_twice_a_second_while_a_share_is_on_its_way(world):
    shares = SharesOnTheirWay()
    world.connect(await world.start(), shares=shares)
    await world.heard(6)
    assert shares.recovered >= 6, "each step finishes what is left of the recovery"
    assert world.reports[-1].detail == "With shares."
    assert shares.followed[-1] == AgentOrders()


async def test_order_to_signal_is_carried_out_once_and_told_once(world):
    world.signals.refuses["other"] = "It has ended."
    world.connect(await world.start())
    await world.heard(2)
    count = len(world.reports)
    world.order(commands=[a_kill("k1"), a_kill("k2", pid=8, pod="other")])
    await until(lambda: any(report.done for report in world.reports))
    (told,) = [report for report in world.reports if report.done]
    assert (told.done, told.failed) == (["k1"], {"k2": "It has ended."})
    world.order(commands=[a_kill("k1")])
    await world.heard(count + 3)
    assert world.signals.sent == [("kill", 7), ("kill", 8)]
    assert sum(bool(report.done or report.failed) for report in world.reports) == 1


async def test_order_whose_answer_took_too_long_is_not_carried_out(world, caplog):
    world.connect(await world.start())
    await world.heard(2)
    world.order(commands=[a_kill("k1", valid_for=0.0), a_kill("k2", pid=8)])
    await until(lambda: any(report.done for report in world.reports))
    assert world.signals.sent == [("kill", 8)]
    assert "came too late" in caplog.text
    assert not any(report.failed for report in world.reports)


async def test_result_that_the_service_did_not_hear_is_told_again(world):
    url = await world.start()
    world.order(commands=[a_kill()])
    world.machine.deaf_to_results = 1
    world.connect(url)
    await until(lambda: any(report.done for report in world.reports))
    assert world.signals.sent == [("kill", 7)]


async def test_agent_that_restarts_gets_its_orders_at_once(world):
    url = await world.start()
    world.order(watch=[POD])
    world.connect(url)
    await world.heard(2)
    world.tasks[0].cancel()
    count = len(world.reports)
    world.connect(url)
    at_once = Deadline(5)
    await until(lambda: any(report.shares for report in world.reports[count:]))
    assert not at_once.is_over(), "the orders came at once"


async def test_each_change_of_the_node_is_logged_once(world, caplog):
    caplog.set_level(logging.INFO, "jupyter_gq.agent")
    node = NodeThatLosesItsDriver()
    world.connect(await world.start(), node=node, every=0.2)
    await world.heard(3)
    node.lost = True
    count = len(world.reports)
    await world.heard(count + 3)
    node.lost = False
    await until(lambda: "kubelet: nothing is missing" in caplog.text)
    assert caplog.text.count("driver: OK") == 2
    assert caplog.text.count("driver: LOST: It fell off the bus.") == 1
    assert caplog.text.count("suspend: It cannot.") == 1


async def test_renewed_token_is_read_for_the_next_report(world, caplog):
    world.token.write_text("of yesterday")
    world.connect(await world.start())
    await until(lambda: "invalid_pod_token" in caplog.text)
    world.token.unlink()
    await until(lambda: "cannot be read" in caplog.text)
    world.token.write_text("")
    await until(lambda: "is empty" in caplog.text)
    assert world.machine.heard == []
    world.token.write_text("agent")
    await world.heard(1)
    assert "of yesterday" not in caplog.text


async def test_report_for_another_node_is_refused_and_each_side_logs_it_once(world, caplog):
    world.connect(await world.start(), name="node-b")

    def told():
        return [record.name.split(".")[1] for record in caplog.records if "wrong_node" in record.getMessage()]

    await until(lambda: len(told()) == 2)
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert sorted(told()) == ["agent", "api"], "once by each side"
    assert world.machine.heard == []


async def test_agent_finds_a_service_that_starts_late_or_restarts(world, caplog):
    caplog.set_level(logging.INFO)
    port = claim_port()
    world.connect(f"http://127.0.0.1:{port}{PREFIX}", every=0.3)
    for time in (1, 2):
        await until(lambda: caplog.text.count("the service did not accept the report") == time)  # noqa: B023
        count = len(world.machine.heard)
        server = make_server(application_of(world.controller, None, PREFIX, pods=authenticator()))
        server.add_sockets(bind_sockets(port, "127.0.0.1"))
        await world.heard(count + 2)
        assert world.backoff.next() == 0.02, "the next failure is the first one again"
        assert caplog.text.count("accepts reports again") == time
        server.stop()
        await server.close_all_connections()


async def test_defect_is_logged_and_the_agent_continues(world, caplog):
    world.connect(await world.start(), node=NodeWithADefect())
    await world.heard(1)
    assert "a defect" in caplog.text

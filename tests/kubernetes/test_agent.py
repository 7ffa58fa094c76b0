"""The agent as a pod of a node: its token, the kubelet's socket and the processes of pods, as they come and go."""

import asyncio
import copy

import psutil
import pytest
import pytest_asyncio

from jupyter_gq.client.agents import AgentCommand, AgentProcess
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.devices.linux.processes import read_process
from jupyter_gq.devices.meter import ShareUse
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.cluster import SHARE_LABEL
from tests.kubernetes.agent_world import NODE, TRAINS, TRAINS_ON, HearsWhatTheTestWants, Service, a_pod, an_agent, run
from tests.kubernetes.backend_world import World, give_rights, make_runtime_class
from tests.kubernetes.job_world import ANN, CONFIG, Installed
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

#: Holds more than half of a device, and says so.
GREEDY = "import time, jupyter_gq\njupyter_gq.simulate_memory(22528)\nprint('holds', flush=True)\ntime.sleep(1000)"
#: A short time between the first steps of the watchdog; an interrupted program has time to end, also on a slow machine.
IMPATIENT = copy.deepcopy(CONFIG)
IMPATIENT.Pools.interrupt_after, IMPATIENT.Pools.end_after = 5, 3600


@pytest.fixture(scope="module")
def namespaces(control_plane, namespace_set):
    give_rights(control_plane, namespace_set)
    make_runtime_class(control_plane)
    return namespace_set


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet(NODE, gpus=3)


@pytest.fixture
def plane(control_plane):
    return control_plane


@pytest_asyncio.fixture
async def world(plane, namespaces):
    world = World(plane, namespaces)
    yield world
    await world.close()


@pytest_asyncio.fixture
async def serve(plane, namespaces, tmp_path):
    """Start the service over a backend."""
    started = []

    def start(backend):
        started.append(Service(plane, namespaces, tmp_path, backend))
        started[-1].start()
        return started[-1]

    yield start
    for service in started:
        await service.end()


async def test_an_agent_tells_of_its_node_and_outlives_kubelet_and_service(plane, namespaces, node, serve):
    backend = HearsWhatTheTestWants()
    service, nodes, mark = serve(backend), namespaces.nodes, plane.mark()
    await run(plane, nodes, an_agent("agent-1", service.url))
    report = await backend.reports(lambda _: True, "a report")
    assert backend.heard[0][0] == NODE
    assert (report.probe, report.allocations, report.shares) == ("OK", [], [])
    assert [device.uuid for device in report.devices] == [f"GPU-sim-{NODE}-{index}" for index in range(3)]
    assert set(report.missing) == {"suspend", "visible"}, "simulated devices have no device nodes"

    process = psutil.Process(node.container(nodes, "agent-1").process.pid)
    assert not [each for each in process.net_connections() if each.status == psutil.CONN_LISTEN], "it only dials"

    # What the kubelet gave to a pod, and what its processes do with it.
    held = await run(plane, nodes, a_pod("held", "sleep", "1000", gpus=1))
    busy = await run(plane, nodes, a_pod("busy", "python", "-c", TRAINS, gpus=1))
    given = await backend.reports(lambda report: len(report.allocations or ()) == 2, "both allocations")
    assert {each.pod: each.device_ids for each in given.allocations} == {
        "held": [f"GPU-sim-{NODE}-2"],
        "busy": [f"GPU-sim-{NODE}-1"],
    }
    backend.watch(busy, held)
    trained = await backend.reports(
        lambda report: [share.memory_mib for share in report.shares] == [2000, 0] and report.shares[0].utilisation,
        "what both shares do",
    )
    assert [share.pod_uid for share in trained.shares] == [busy.metadata.uid, held.metadata.uid]
    assert [share.visible for share in trained.shares] == [None, None]

    # Without the kubelet nothing is known of devices that it has not told yet; with it again, all is.
    await asyncio.to_thread(node.kill)
    blind = await backend.reports(lambda report: report.allocations is None, "the kubelet is away")
    assert "no socket" in blind.missing["kubelet"]
    assert [(share.memory_mib, share.utilisation) for share in blind.shares] == [(None, None)] * 2
    await asyncio.to_thread(node.restart)
    await backend.reports(lambda report: len(report.allocations or ()) == 2 and not report.missing.get("kubelet"), "it")

    # The service goes and comes; the agent is the same process.
    await service.stop()
    await eventually(
        lambda: "did not accept the report; the agent tries again" in node.log(nodes, "agent-1"), "the agent misses it"
    )
    service.start()
    await backend.reports(lambda report: len(report.shares) == 2, "the agent is back")
    assert process.is_running()

    # An agent that is killed leaves nothing behind that its successor would need.
    node.container(nodes, "agent-1").signal(9)
    await run(plane, nodes, an_agent("agent-2", service.url))
    await backend.reports(
        lambda report: report.shares and report.shares[0].memory_mib == 2000, "the second agent knows its orders"
    )

    # The API server was asked about each of the two tokens, and not about each report.
    await eventually(lambda: len(backend.heard) >= 20, "some more reports")
    reviews = plane.requests(mark, user=namespaces.service_user, resource="tokenreviews")
    assert len(reviews) == 2, f"of {len(backend.heard)} reports"

    # Asked to end, it ends well and at once.
    second = node.container(nodes, "agent-2")
    second.signal()
    await eventually(lambda: second.code is not None, "its end", seconds=4)
    assert second.code == 0
    node.container(nodes, "busy").sweep()


async def test_an_ordered_signal_ends_one_program_of_one_pod(plane, namespaces, node, serve):
    backend = HearsWhatTheTestWants()
    nodes = namespaces.nodes
    await run(plane, nodes, an_agent("agent-6", serve(backend).url))
    greedy = await run(plane, nodes, a_pod("greedy", "python", "-c", TRAINS_ON, gpus=1))
    modest = await run(plane, nodes, a_pod("modest", "python", "-c", TRAINS_ON, gpus=1))
    backend.watch(greedy, modest)

    def held(report):
        """The processes that hold memory, by the uid of their pod."""
        return {
            share.pod_uid: use.process
            for share in report.shares
            for device in share.devices
            for use in device.processes or ()
            if use.memory_mib == 2000
        }

    report = await backend.reports(lambda report: len(held(report)) == 2, "two programs that hold memory")
    assert "signal" not in report.missing
    victim, other = held(report)[greedy.metadata.uid], held(report)[modest.metadata.uid]
    main = node.container(nodes, "greedy").process.pid
    entry = AgentProcess(pid=main, ticks=read_process(main).ticks)
    wrong = [
        AgentCommand(id="main", kind="kill", pod_uid=greedy.metadata.uid, process=entry),
        AgentCommand(id="other", kind="kill", pod_uid=greedy.metadata.uid, process=other),
        AgentCommand(
            id="early", kind="kill", pod_uid=greedy.metadata.uid, process=victim.model_copy(update={"ticks": 1})
        ),
    ]
    right = AgentCommand(id="right", kind="kill", pod_uid=greedy.metadata.uid, process=victim, valid_for=15)
    backend.watch(greedy, modest, commands=[*wrong, right])
    told = await backend.reports(lambda report: report.done, "what became of the orders")
    assert told.done == ["right"]
    assert set(told.failed) == {"main", "other", "early"}
    left = await backend.reports(lambda report: len(held(report)) == 1, "one program is left")
    assert held(left) == {modest.metadata.uid: other}
    assert psutil.pid_exists(main)
    for name in ("greedy", "modest"):
        node.container(nodes, name).sweep()
    node.container(nodes, "agent-6").signal(9)


async def test_a_share_runs_on_the_device_that_the_agent_saw_and_what_it_uses_is_known(plane, world, node, serve):
    backend, nodes = world.backend, world.namespaces.nodes
    service = serve(backend)
    await run(plane, nodes, an_agent("agent-3", service.url))
    share = world.notebook("shared", NODE, 0)
    await world.launch(share)

    async def additions():
        await backend.observe()
        return backend.notebooks.pod_additions(share.id, share.run)

    added = await eventually(additions, lambda: backend.notebooks.describe_preparation(share.id, share.run))
    (reservation,) = [pod.metadata.name for pod in world.pods() if pod.metadata.name.startswith("gq-res-")]
    given = node.container(nodes, reservation).devices["nvidia.com/gpu"]
    assert added.environment["NVIDIA_VISIBLE_DEVICES"] == given[0]
    assert added.node == NODE

    # The spawner's pod: what it does is known a moment later.
    server = a_pod("server", "python", "-c", TRAINS)
    server["metadata"] |= {"labels": {**added.labels, "component": "singleuser-server"}}
    server["metadata"]["annotations"] = added.annotations
    await run(plane, world.namespaces.hub, server)

    async def used():
        await backend.observe()
        use = backend.find_uses([share.id]).get(share.id)
        return use if use is not None and use.memory and use.utilisation else None

    use = await eventually(used, lambda: f"its use: {backend.find_uses([share.id]).get(share.id)}")
    assert use == ShareUse(memory=2000, utilisation=use.utilisation)

    # An agent that is silent makes it unknown, and no new share goes there; whoever runs, runs on.
    def takes_shares():
        labels = {each.name: each.labels for each in backend.nodes()}[NODE]
        return labels.get(SHARE_LABEL[0]) == SHARE_LABEL[1]

    assert takes_shares()
    node.container(nodes, "agent-3").signal(9)
    await eventually(lambda: node.container(nodes, "agent-3").code is not None, "the end of the agent")
    world.clock.ahead += 61
    assert backend.find_uses([share.id]).get(share.id) is None
    await backend.observe()
    assert not takes_shares()
    assert (await world.observed(share)).phase == "RUNNING"
    await run(plane, nodes, an_agent("agent-4", service.url))
    await eventually(used, "its use, told by the second agent")
    assert takes_shares()


async def test_a_job_on_a_share_begins_when_the_agent_has_looked_at_its_devices(plane, world, node, tmp_path):
    world.pools[:] = build_settings(CONFIG, ()).pod_pools
    installed = Installed(world, tmp_path, devices=3)
    await installed.start()
    try:
        job = installed.send("import os\nprint(os.environ['NVIDIA_VISIBLE_DEVICES'])", tmp_path / "home", gpus="0.5")
        await eventually(lambda: "no node of it has a working agent" in installed.job(job).sentence, "that it waits")
        await run(plane, world.namespaces.nodes, an_agent("agent-5", installed.url))
        await installed.phase(job, "done")
        assert installed.text(job).startswith(f"GPU-sim-{NODE}-")
        told = "The job starts although its devices were not checked. The driver of this node does not tell the numbers"
        log = installed.controller.jobs.read_log(ANN, job)
        assert told in log, "it was looked at; simulated devices are nowhere to be seen"
    finally:
        await installed.stop()
        installed.store.close()


async def test_a_job_above_its_memory_limit_is_warned_and_interrupted_by_the_agent(plane, world, node, tmp_path):
    world.pools[:] = build_settings(CONFIG, ()).pod_pools
    installed = Installed(world, tmp_path, devices=3, config=IMPATIENT)
    await installed.start()
    try:
        await run(plane, world.namespaces.nodes, an_agent("agent-7", installed.url))
        job = installed.send(GREEDY, tmp_path / "home", gpus="0.5")
        await eventually(
            lambda: "2 GiB more than the limit of 20 GiB" in installed.job(job).sentence,
            lambda: f"the warning: {installed.job(job)}",
        )
        await installed.phase(job, "failed")
        assert "was interrupted, because the share held 22 GiB of GPU memory" in installed.job(job).sentence
        acts = [entry.action for entry in installed.store.audit(AuditFilter()) if entry.object == job]
        memory = [action for action in acts if action.value.startswith("memory.")]
        assert memory == [Action.MEMORY_INTERRUPT, Action.MEMORY_WARN]
    finally:
        await installed.stop()
        installed.store.close()

"""What agents tell of single processes counts shortly, and orders to signal one of them end with their reason."""

import signal

import pytest
import pytest_asyncio

from jupyter_gq.backends.capabilities import SignalResult
from jupyter_gq.backends.kubernetes.share_uses import add_up
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.meter import DeviceUse, ProcessUse, ShareUse
from jupyter_gq.domain.amount import MiB

from .paper_backend import PaperBackend

KERNEL = ProcessId(70, 5)


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


def held(*processes, device="GPU-0", free=1000):
    """What processes hold of a device, as (id, MiB); their start is 5."""
    uses = [{"process": {"pid": pid, "ticks": 5}, "memory_mib": memory} for pid, memory in processes]
    return {"device": device, "processes": uses, "free_mib": free}


def share(*devices):
    return {"memory_mib": 7, "utilisation": 0, "devices": list(devices)}


async def a_share(paper, name="a", slot="n1/0", device="GPU-0"):
    """A notebook that runs on that slot, whose agent has reported its kernel; its id and the uid of its pod."""
    workload = await paper.launch("nb", name, slot)
    uid = paper.pod(workload.id, slot, device)
    await paper.observed(workload.id)
    paper.report(shares={uid: share(held((70, 9000), device=device))})
    return workload.id, uid


def use_of(paper, name):
    return paper.runs.find_uses([name]).get(name).devices


def order(paper, name, process=KERNEL, device="n1/0", number=signal.SIGINT):
    return paper.runs.capabilities.ordered_signals.order_signal((name, 1), device, process, number)


def result(paper, id):
    return paper.runs.capabilities.ordered_signals.signal_result(id)


@pytest.mark.asyncio
async def test_use_of_each_process_has_the_name_that_the_core_gives_to_the_device(paper):
    name, _ = await a_share(paper, slot="n1/1", device="GPU-0")
    process = ProcessUse(process=KERNEL, memory=MiB(9000))
    assert use_of(paper, name) == (DeviceUse(device="n1/1", processes=(process,), free=MiB(1000), total=MiB(40_000)),)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "more",
    [
        {"missing": {"signal": "This agent may not signal programs."}},
        {"probe": "LOST"},
        {"shares": {"uid-nb-a": {"memory_mib": 7}}},
        {"shares": {"uid-nb-a": share(held((70, 9000), device="GPU-1"))}},
    ],
    ids=["no right", "no driver", "no processes", "another device"],
)
async def test_what_nobody_can_act_on_is_not_judged(paper, more):
    name, uid = await a_share(paper)
    assert use_of(paper, name)
    paper.report(**{"shares": {uid: share(held((70, 9000)))}, **more})
    assert use_of(paper, name) == ()


@pytest.mark.asyncio
async def test_device_without_a_sample_stays_unknown(paper):
    name, uid = await a_share(paper)
    paper.report(shares={uid: share({"device": "GPU-0"})})
    assert [each.processes for each in use_of(paper, name)] == [None]


@pytest.mark.asyncio
async def test_figures_of_processes_count_for_seconds_only(paper):
    name, _ = await a_share(paper)
    signals = paper.runs.capabilities.ordered_signals
    paper.clock.at += 14
    assert use_of(paper, name)
    assert signals.can_signal("n1/0")
    paper.clock.at += 2
    assert use_of(paper, name) == ()
    assert paper.runs.find_uses([name]).get(name).memory == 7, (
        "its other figures count until the agent is taken as silent"
    )
    assert not signals.can_signal("n1/0")
    assert order(paper, name) == ""
    assert not signals.can_signal("n2/0"), "its agent has never reported"


@pytest.mark.asyncio
async def test_order_goes_to_the_agent_of_the_node_until_it_tells_what_became_of_it(paper):
    name, uid = await a_share(paper)
    id = order(paper, name, number=signal.SIGTERM)
    told = {uid: share(held((70, 9000)))}
    (command,) = paper.report(shares=told).commands
    assert (command.id, command.kind, command.pod_uid) == (id, "terminate", uid)
    assert (command.process.pid, command.process.ticks) == (70, 5)
    assert command.valid_for == 15
    assert paper.report("n2").commands == []
    assert paper.report("n2", done=[id]) is not None
    assert result(paper, id) is SignalResult.WAITING, "another node does not speak for it"
    assert paper.report(shares=told, done=[id]).commands == []
    assert result(paper, id) is SignalResult.SENT


@pytest.mark.asyncio
async def test_refused_order_is_not_given_again(paper):
    name, uid = await a_share(paper)
    id = order(paper, name)
    assert paper.report(shares={uid: share(held((70, 9000)))}, failed={id: "It has ended."}).commands == []
    assert result(paper, id) is SignalResult.REFUSED


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "devices",
    [[held((70, 8999))], [held((71, 9000))], [held((70, None))], [{"device": "GPU-0"}], []],
    ids=["less", "gone", "unknown", "lost", "none"],
)
async def test_order_lapses_if_its_reason_is_gone_before_the_agent_hears_it(paper, devices):
    """The agent was away meanwhile: its first words are that the program has freed its memory."""
    name, uid = await a_share(paper)
    id = order(paper, name)
    assert paper.report(shares={uid: share(*devices)}).commands == []
    assert result(paper, id) is SignalResult.LAPSED


@pytest.mark.asyncio
async def test_order_that_no_agent_hears_lapses(paper):
    name, _ = await a_share(paper)
    id = order(paper, name)
    paper.clock.at += 15
    assert result(paper, id) is SignalResult.WAITING
    paper.clock.at += 1
    assert result(paper, id) is SignalResult.LAPSED
    assert paper.runs.capabilities.agent_reports.orders("n1").commands == []
    assert result(paper, "an order of an earlier service") is SignalResult.LAPSED


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("process", "device"), [(ProcessId(70, 6), "n1/0"), (ProcessId(71, 5), "n1/0"), (KERNEL, "n1/1")]
)
async def test_process_that_the_share_does_not_have_is_no_order(paper, process, device):
    name, _ = await a_share(paper)
    assert order(paper, name, process, device) == ""


@pytest.mark.asyncio
async def test_process_of_another_share_is_no_order(paper):
    name, uid = await a_share(paper)
    other, other_uid = await a_share(paper, "b")
    paper.report(shares={uid: share(held((70, 9000))), other_uid: share(held((80, 9000)))})
    assert order(paper, other) == ""
    assert order(paper, other, ProcessId(80, 5))
    assert order(paper, name)


def test_pods_of_one_share_on_one_device_count_together():
    def use(*processes, free=5):
        uses = (
            None if None in processes else tuple(ProcessUse(process=ProcessId(p, 5), memory=MiB(9)) for p in processes)
        )
        return ShareUse(memory=MiB(9), utilisation=1, devices=(DeviceUse(device="n1/0", processes=uses, free=free),))

    (both,) = add_up([use(1), use(2, 3)]).devices
    assert [each.process.pid for each in both.processes] == [1, 2, 3]
    (unknown,) = add_up([use(1), use(None)]).devices
    assert unknown.processes is None
    assert add_up([use(1), ShareUse(memory=MiB(9), utilisation=1)]).devices == ()

"""On a cluster, a step of the watchdog is an order to an agent, and counts once the agent has told that it was done."""

import signal
from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import SignalResult
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.audit import Action

from .test_memory_watch import ANN, LIMIT, TOO_MUCH, WatchedWorld, a_job, a_notebook

pytestmark = pytest.mark.asyncio

SENT, WAITING, REFUSED, LAPSED = SignalResult.SENT, SignalResult.WAITING, SignalResult.REFUSED, SignalResult.LAPSED


class Orders:
    """The orders to agents, of which the test says what became; `can` says whether agents can signal."""

    def __init__(self):
        self.given, self.results, self.can, self.becomes = [], {}, True, SENT

    def can_signal(self, device):
        return self.can

    def order_signal(self, key, device, process, number):
        if not self.can:
            return ""
        id = f"o{len(self.given)}"
        self.given.append((process.pid, number))
        self.results[id] = self.becomes
        return id

    def signal_result(self, order):
        return self.results[order]

    def tell(self, result):
        """What became of the last order."""
        self.results[f"o{len(self.given) - 1}"] = result

    @property
    def numbers(self):
        return [number for _, number in self.given]


class Cluster(WatchedWorld):
    """A machine whose programs only agents may signal; the service itself knows no ids of the host."""

    def _service(self):
        controller = super()._service()
        self.orders = Orders()
        for backend in (self.servers, self.backend):
            backend.capabilities = replace(backend.capabilities, process_signals=None, ordered_signals=self.orders)
        controller._context.host_pids = False
        controller._context.probe = None
        return controller


@pytest.fixture
def world(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def actions(world):
    return [action for action, _ in world.acts()]


async def test_share_goes_through_the_same_steps_with_the_same_words(world):
    kernel = await a_notebook(world)
    assert world.notebook(ANN).enforcement == "watched"
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(5)
    assert world.notebook(ANN).over_limit.sentence == (
        "The programs of this share hold 22 GiB of GPU memory, 2 GiB more than the limit of 20 GiB. Free some memory: "
        f"in about 60 s, the largest program (process {kernel}, 22 GiB) is interrupted."
    )
    await world.see(140)
    assert world.orders.given[:3] == [(kernel, number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)]
    assert actions(world)[:4] == [
        Action.MEMORY_WARN,
        Action.MEMORY_INTERRUPT,
        Action.MEMORY_TERMINATE,
        Action.MEMORY_KILL,
    ]
    assert world.notebook(ANN).enforcement == "watched"


async def test_step_is_recorded_when_the_agent_has_told_and_its_time_begins_then(world):
    kernel = await a_notebook(world)
    world.orders.becomes = WAITING
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(80)
    assert (world.orders.numbers, actions(world)) == ([signal.SIGINT], [Action.MEMORY_WARN])
    assert world.notebook(ANN).over_limit.done == "warn"
    world.orders.tell(SENT)
    await world.step()
    assert actions(world) == [Action.MEMORY_WARN, Action.MEMORY_INTERRUPT]
    assert (world.notebook(ANN).over_limit.done, world.notebook(ANN).over_limit.next) == ("interrupt", "terminate")
    await world.see(55)
    assert world.orders.numbers == [signal.SIGINT]
    await world.see(10)
    assert world.orders.numbers == [signal.SIGINT, signal.SIGTERM]


async def test_interrupt_that_freed_the_memory_at_once_is_recorded_and_told(world):
    kernel = await a_notebook(world)
    world.orders.becomes = WAITING
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(65)
    world.orders.tell(SENT)
    world.probe.held = {kernel: 0}
    await world.see(5)
    assert actions(world) == [Action.MEMORY_WARN, Action.MEMORY_INTERRUPT]
    told = world.notebook(ANN).over_limit
    assert (told.done, told.next) == ("interrupt", None)
    assert "was interrupted, because the share held 22 GiB of GPU memory" in told.sentence
    await world.see(300)
    assert world.orders.numbers == [signal.SIGINT]


async def test_order_that_lapses_is_given_again_while_the_share_is_over_its_limit(world):
    kernel = await a_notebook(world)
    world.orders.becomes = LAPSED
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(75)
    assert len(world.orders.given) > 1
    assert set(world.orders.numbers) == {signal.SIGINT}
    assert actions(world) == [Action.MEMORY_WARN]
    assert world.notebook(ANN).enforcement == "watched"
    count = len(world.orders.given)
    world.probe.held = {kernel: LIMIT}
    await world.see(60)
    assert len(world.orders.given) == count
    assert world.notebook(ANN).over_limit is None


async def test_share_whose_program_the_agent_may_not_signal_is_not_watched(world):
    kernel = await a_notebook(world)
    world.orders.becomes = REFUSED
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(90)
    assert actions(world) == [Action.MEMORY_WARN]
    assert world.notebook(ANN).enforcement == "cooperative"
    world.probe.held = {kernel: LIMIT}
    await world.see(5)
    assert world.notebook(ANN).enforcement == "watched"


async def test_agent_that_falls_silent_takes_the_level_away_at_once(world):
    await a_notebook(world)
    world.orders.can = False
    assert world.notebook(ANN).enforcement == "cooperative"
    assert "that is cooperative" in world.controller.overview.describe_user(ANN).level_sentence
    world.orders.can = True
    assert "that is watched" in world.controller.overview.describe_user(ANN).level_sentence


async def test_job_that_the_signal_has_ended_says_so_and_the_act_is_recorded(world):
    job, kernel = await a_job(world)
    world.orders.becomes = WAITING
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(65)
    world.orders.tell(SENT)
    world.backend.end(job, Outcome.FAILED, "The kernel died.")
    await world.step()
    assert "was interrupted, because the share held 22 GiB" in world.job(job).sentence
    assert actions(world) == [Action.MEMORY_WARN, Action.MEMORY_INTERRUPT]


async def test_act_that_is_told_after_the_end_of_its_job_is_recorded_too(world):
    job, kernel = await a_job(world)
    world.orders.becomes = WAITING
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(65)
    world.backend.end(job, Outcome.FAILED, "The kernel died.")
    await world.see(10)
    world.orders.tell(SENT)
    await world.see(10)
    assert actions(world) == [Action.MEMORY_WARN, Action.MEMORY_INTERRUPT]
    assert world.controller._context.excesses == {}


async def test_new_service_begins_at_the_warning_and_knows_no_old_orders(world):
    """A service that is away warns nobody, so nothing follows before a new warning."""
    kernel = await a_notebook(world)
    world.orders.becomes = WAITING
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(65)
    assert world.orders.numbers == [signal.SIGINT]
    world.restart()
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(10)
    assert actions(world) == [Action.MEMORY_WARN, Action.MEMORY_WARN]
    assert world.orders.given == []


async def test_limit_is_that_of_the_device_itself(tmp_path):
    """A node may have GPUs of different sizes, and a slot of the core says only one of them."""
    world = Cluster(tmp_path)
    kernel = await a_notebook(world)
    meter = world.controller._context.meter

    class Larger:
        def measure(self, shares):
            def enlarge(use):
                return replace(use, devices=tuple(replace(each, total=MiB(81_920)) for each in use.devices))

            return {name: enlarge(use) for name, use in meter.measure(shares).items()}

    world.controller._context.meter = Larger()
    world.probe.held = {kernel: TOO_MUCH}
    await world.see(300)
    assert (world.notebook(ANN).over_limit, actions(world)) == (None, [])
    world.close()

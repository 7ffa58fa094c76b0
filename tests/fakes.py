"""Named doubles, each named by what goes wrong with it. They keep the protocols' guarantees unless the name denies it.

A backend double is the *machine*: it lives on when the service under test is killed and started again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_gq.backends.protocol import DevicesSeen, Launch, Observation, Outcome, Phase, Sight
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.controller.settings import Settings
from jupyter_gq.devices.probe import DeviceInfo, ProbeState, ProbeStatus, Usage
from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.cluster import SHARE_LABEL, Device, Node
from jupyter_gq.domain.errors import BackendError, Conflict, StorageFull, StoreUnavailable
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import NewEvent, Record, Store, StoredEvent

RunKey = tuple[str, int]


class FixedClock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now

    def now(self) -> Instant:
        return Instant(self._now)

    def forward(self, seconds: float) -> None:
        self._now += seconds


class ServiceKilled(BaseException):
    """`kill -9` of the service at this very instant; no `except Exception` sees it."""


class Fuse:
    """Burns down by one at each place where the service could be killed; at zero it is."""

    def __init__(self) -> None:
        self.left: int | None = None

    def light(self, places: int) -> None:
        self.left = places

    def burn(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise ServiceKilled


def a_node(devices: int = 2, *, name: str = "box", memory: int = 40_960, first: int = 0) -> Node:
    """A machine with so many equal devices."""
    return Node(
        name=name,
        devices=tuple(
            Device(
                id=f"GPU-sim-{name}-{index}",
                index=index,
                model="A100-40GB",
                memory=MiB(memory),
                pool="default",
            )
            for index in range(first, first + devices)
        ),
    )


@dataclass
class FakeRun:
    """One run on the machine."""

    workload: str
    run: int
    phase: Phase
    since: Instant
    outcome: Outcome | None = None
    sentence: str = ""
    pids: tuple[int, ...] = ()
    token: str = ""
    #: When it will be killed; None = nobody asked it to stop.
    deadline: Instant | None = None


class FakeBackend:
    """Runs come up at the next look, save their state when told to stop, and else go on until the test ends them."""

    kinds = frozenset({Kind.TRAINING})
    can_suspend = False
    can_resize = False
    forgetful = False
    keeps_unknown = False
    share_label: tuple[str, str] | None = None

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        self._clock, self._nodes, self._fuse = clock, tuple(nodes), fuse or Fuse()
        self.runs: dict[RunKey, FakeRun] = {}
        #: How many copies of each run were really started: never more than one.
        self.copies: Counter[RunKey] = Counter()
        self.launches: list[Launch] = []
        self.stops: list[tuple[str, int, Seconds]] = []

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        self._fuse.burn()
        self.launches.append(launch)
        key = (launch.workload.id, launch.workload.run)
        if key not in self.runs:
            self.copies[key] += 1
            self.runs[key] = self._started(launch)
        self._fuse.burn()

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        self._fuse.burn()
        self.stops.append((workload, run, grace))
        found = self.runs.get((workload, run))
        if found is not None and found.phase is not Phase.ENDED:
            deadline = Instant(self._clock.now() + grace)
            found.deadline = deadline if found.deadline is None else min(found.deadline, deadline)
            self._told_to_stop(found)
        self._fuse.burn()

    async def observe(self) -> Sequence[Observation]:
        self._fuse.burn()
        for run in self.runs.values():
            self._go_on(run)
        return [
            Observation(
                workload=run.workload,
                run=run.run,
                phase=run.phase,
                since=run.since,
                outcome=run.outcome,
                sentence=run.sentence,
                pids=run.pids,
            )
            for run in self.runs.values()
        ]

    async def forget(self, workload: str, run: int) -> None:
        self._fuse.burn()
        self.runs.pop((workload, run), None)
        self._fuse.burn()

    # --- for the test

    def alive(self) -> list[RunKey]:
        """Runs whose processes live."""
        return [key for key, run in self.runs.items() if run.phase is not Phase.ENDED]

    def end(self, workload: str, outcome: Outcome = Outcome.SUCCEEDED, sentence: str = "") -> None:
        """The live run of this workload ends."""
        (key,) = [key for key in self.alive() if key[0] == workload]
        self._end(self.runs[key], outcome, sentence)

    # --- what a child double changes

    def _started(self, launch: Launch) -> FakeRun:
        return FakeRun(
            workload=launch.workload.id,
            run=launch.workload.run,
            phase=Phase.STARTING,
            since=self._clock.now(),
            token=launch.token,
        )

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING:
            run.phase = Phase.RUNNING

    def _told_to_stop(self, run: FakeRun) -> None:
        self._end(run, Outcome.PAUSED, "")

    def _end(self, run: FakeRun, outcome: Outcome, sentence: str) -> None:
        run.phase, run.outcome, run.sentence, run.since = Phase.ENDED, outcome, sentence, self._clock.now()


class RefusesEveryLaunch(FakeBackend):
    """The machine cannot start anything."""

    async def launch(self, launch: Launch) -> None:
        self.launches.append(launch)
        raise BackendError("the disk of the job folder is read-only")


class DiesDuringStart(FakeBackend):
    """The process is there, and ends before it runs."""

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING:
            self._end(run, Outcome.FAILED, "The kernel died while it started.")


class PlaceIsTaken(FakeBackend):
    """The place that was decided is not to be had, so many times (`refusals`)."""

    refusals = 10**6

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING and self.refusals:
            self.refusals -= 1
            self._end(run, Outcome.REFUSED, "Node n1 did not take it: 0/1 nodes are available.")
        else:
            super()._go_on(run)


class ForgetsEverything(FakeBackend):
    """Keeps nothing of its own, as one whose runs are objects of a cluster; what nobody knows it keeps."""

    forgetful = True
    keeps_unknown = True


class PodsAreLeftBehind(ForgetsEverything):
    """Somebody else made pods for notebooks, and they stand without a ticket."""

    left = ()

    def strays(self):
        return self.left


class SharesOnSomeNodes(FakeBackend):
    """Only nodes with a label can share their devices."""

    share_label = SHARE_LABEL


class RunsPods(FakeBackend):
    """Its tasks are pods, whose uids the test writes into `pods`; it hears agents, whose orders the test sets."""

    kinds = frozenset({Kind.NOTEBOOK, Kind.TRAINING})

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        super().__init__(clock, nodes, fuse)
        #: Task of each pod, by workload, run and uid.
        self.pods: dict[tuple[str, int, str], int] = {}
        self.images: dict[str, str] = {}
        #: What is known of the devices of tasks, by workload, run and task.
        self.seen: dict[tuple[str, int, int], DevicesSeen] = {}
        self.heard: list[tuple[str, AgentReport]] = []
        self.told: dict[str, AgentOrders] = {}

    def task_of(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        return self.pods.get((workload, run, identity.uid))

    def image_of(self, ticket: str) -> str:
        return self.images.get(ticket, "")

    def devices_seen(self, workload: str, run: int, task: int) -> DevicesSeen:
        right = DevicesSeen(sight=Sight.RIGHT, required=True, sentence="It sees its own devices.")
        return self.seen.get((workload, run, task), right)

    def hear(self, node: str, report: AgentReport) -> AgentOrders:
        self.heard.append((node, report))
        return self.orders(node)

    def lose_devices(self) -> None:
        """All of them fall ill."""
        self._nodes = tuple(
            replace(node, devices=tuple(replace(device, healthy=False) for device in node.devices))
            for node in self._nodes
        )

    def orders(self, node: str) -> AgentOrders:
        return self.told.get(node, AgentOrders())


class NeverStops(FakeBackend):
    """Ignores every signal."""

    def _told_to_stop(self, run: FakeRun) -> None:
        """Nothing happens."""


class StopsTooLate(FakeBackend):
    """Does not save its state in its time and is killed."""

    def _told_to_stop(self, run: FakeRun) -> None:
        """The deadline decides."""

    def _go_on(self, run: FakeRun) -> None:
        super()._go_on(run)
        if run.phase is Phase.RUNNING and run.deadline is not None and self._clock.now() >= run.deadline:
            self._end(run, Outcome.KILLED, "It did not stop in its time.")


class FinishesAnyway(FakeBackend):
    """Told to stop, its code was just done."""

    def _told_to_stop(self, run: FakeRun) -> None:
        self._end(run, Outcome.SUCCEEDED, "")


class CannotBeObserved(FakeBackend):
    """Answers no question while `blind`."""

    blind = False

    async def observe(self) -> Sequence[Observation]:
        if self.blind:
            raise BackendError("the process table cannot be read")
        return await super().observe()


class FakeServers(FakeBackend):
    """Notebook servers, started by a hub that the test plays. It knows processes only by `attach` and by launches.

    `processes` is the machine's process table: it outlives the double, as processes outlive a service.
    """

    kinds = frozenset({Kind.NOTEBOOK})
    forgetful = True

    def __init__(
        self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None, processes: set[int] | None = None
    ) -> None:
        super().__init__(clock, nodes, fuse)
        self.processes: set[int] = set() if processes is None else processes

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        if pid not in self.processes:
            raise Conflict(f"There is no process {pid}.")
        if (workload, run) not in self.runs:
            raise Conflict(f"{workload} holds no share now.")
        held = self.runs[(workload, run)].pids
        if held and held[0] != pid and held[0] in self.processes:
            raise Conflict(f"Another process holds the share of {workload}.")
        self.runs[(workload, run)].pids = (pid, pid + 1)

    def _started(self, launch: Launch) -> FakeRun:
        run = super()._started(launch)
        if launch.detail.get("pid") is not None:
            run.pids = (launch.detail["pid"], launch.detail["pid"] + 1)
        return run

    def _go_on(self, run: FakeRun) -> None:
        if not run.pids or run.phase is Phase.ENDED:
            return
        run.phase = Phase.RUNNING
        if run.pids[0] not in self.processes:
            self._end(run, Outcome.LOST, "Its process is gone.")

    def _told_to_stop(self, run: FakeRun) -> None:
        if not run.pids:
            self._end(run, Outcome.KILLED, "")
        self.processes.difference_update(run.pids)


class FakeBundles:
    """Files of jobs, in memory."""

    def __init__(self, *, full: bool = False) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.executed: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self._full = full

    def write(self, job: str, owner: str, bundle: dict[str, Any], max_bytes: int) -> None:
        if self._full:
            raise StorageFull("The disk is full.")
        self.kept[job] = bundle

    def executed_notebook(self, job: str, owner: str) -> dict[str, Any] | None:
        return self.executed.get(job)

    def log(self, job: str, owner: str, tail: int) -> str | None:
        text = self.logs.get(job)
        return None if text is None else text[-tail:]

    def delete(self, job: str, owner: str) -> None:
        self.kept.pop(job, None)


class SharedBundles(FakeBundles):
    """Runners fetch and send files by way of the service."""

    def bundle(self, job: str) -> dict[str, Any] | None:
        return self.kept.get(job)

    def put_log(self, job: str, run: int, task: int, text: str) -> None:
        self.logs[job] = text


class FakeProbe:
    """Says what the test wrote into `used`; None there = the driver does not say."""

    def __init__(self) -> None:
        self.used: dict[int, int | None] = {}
        self.blind = False

    def status(self) -> ProbeStatus:
        return ProbeStatus(state=ProbeState.OK, detail="Simulated devices, for tests.")

    def devices(self) -> tuple[DeviceInfo, ...]:
        return ()

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        if self.blind:
            return None
        return tuple(Usage(pid=pid, memory=MiB(1024), utilisation=self.used[pid]) for pid in pids if pid in self.used)


class FixedSettings:
    """Settings that the test replaces itself."""

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self.error: str | None = None
        self._changed = False

    def change(self, **changes: Any) -> None:
        self.current = replace(self.current, **changes)
        self._changed = True

    async def refresh(self) -> bool:
        changed, self._changed = self._changed, False
        return changed


class _StoreAround:
    """Passes everything on; the doubles below override what goes wrong."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StoreOfAServiceThatDies(_StoreAround):
    """The service may be killed just before or just after a save."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        super().__init__(store)
        self._fuse = fuse

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        self._fuse.burn()
        stored = self._store.save(records, events)
        self._fuse.burn()
        return stored


class StoreIsFull(_StoreAround):
    """Refuses every write while `full`."""

    full = True

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        if self.full:
            raise StorageFull("The disk of the database is full.")
        return self._store.save(records, events)


class StoreGoesAway(_StoreAround):
    """While `away` it answers nothing."""

    away = False
    asked = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        def unanswered(*given: Any, **named: Any) -> Any:
            self.asked += 1
            raise StoreUnavailable("'jobs' at db", "connection refused")

        return unanswered if self.away else real


class StoreLosesAnAnswer(_StoreAround):
    """The next save, once `losing`, is kept; but whoever asked for it never hears so."""

    losing = False

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        stored = self._store.save(records, events)
        if self.losing:
            self.losing = False
            raise StoreUnavailable("'jobs' at db", "server closed the connection unexpectedly")
        return stored


class StoreLosesTheRace(_StoreAround):
    """Somebody else's save of the same key came first."""

    def save(self, records: Sequence[Record], events: Sequence[NewEvent] = ()) -> tuple[StoredEvent, ...]:
        raise Conflict("Another workload of this owner was submitted with the same idempotency key.")


def counting(prefix: str = "") -> Any:
    """A factory of ids in order, in place of random ones."""
    count = iter(range(1, 1_000_000))
    return lambda: f"{prefix}{next(count)}"


def environment_of(launches: Sequence[Launch]) -> Mapping[str, str]:
    """What the newest launch told its processes."""
    return launches[-1].environment

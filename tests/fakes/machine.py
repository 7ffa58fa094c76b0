"""The machine: it lives on when the service under test is killed and started again."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.backends.capabilities import Capabilities, CheckpointFolders
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase, hash_token
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.suspension.share_state import SharePhase, ShareState
from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.workload import Kind, RunKey, TaskPlacement, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .time_and_death import FixedClock, Fuse


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
    #: Whether somebody else ended it on purpose.
    disrupted: bool = False
    pids: tuple[int, ...] = ()
    token: str = ""
    #: Its place, as the machine remembers it.
    placement: tuple[TaskPlacement, ...] = ()
    #: When it will be killed; None = nobody asked it to stop.
    deadline: Instant | None = None


class FakeBackend:
    """Runs come up at the next look, save their state when told to stop, and else go on until the test ends them."""

    kinds = frozenset({Kind.TRAINING})
    capabilities = Capabilities(reached_folders=("/",), checkpoints=CheckpointFolders.SHARED)

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
                disrupted=run.disrupted,
                pids=run.pids,
                placement=run.placement,
                token_hash=hash_token(run.token) if run.token else "",
                share=self._share_of(run),
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

    def _share_of(self, run: FakeRun) -> ShareState | None:
        return None

    def _started(self, launch: Launch) -> FakeRun:
        return FakeRun(
            workload=launch.workload.id,
            run=launch.workload.run,
            phase=Phase.STARTING,
            since=self._clock.now(),
            token=launch.token,
            placement=launch.workload.placement,
        )

    def _go_on(self, run: FakeRun) -> None:
        if run.phase is Phase.STARTING:
            run.phase = Phase.RUNNING

    def _told_to_stop(self, run: FakeRun) -> None:
        self._end(run, Outcome.PAUSED, "")

    def _end(self, run: FakeRun, outcome: Outcome, sentence: str) -> None:
        run.phase, run.outcome, run.sentence, run.since = Phase.ENDED, outcome, sentence, self._clock.now()


class FakeResizingBackend(FakeBackend):
    """A machine that can change the number of tasks of a run. A task that leaves ends when the test says so."""

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        super().__init__(clock, nodes, fuse)
        self.capabilities = Capabilities(resizing=self)
        #: Places of tasks that were told to leave, by run.
        self.leaving: dict[RunKey, tuple[TaskPlacement, ...]] = {}
        #: Runs to which no task can be added.
        self.closed: set[RunKey] = set()
        #: Whether tasks can be added; if not, the first attempt closes the run.
        self.has_room = True
        self.graces: list[Seconds] = []

    async def resize(
        self, workload: Workload, detail: WorkloadDetail, environment: Mapping[str, str], grace: Seconds
    ) -> None:
        self._fuse.burn()
        key = (workload.id, workload.run)
        run, wanted = self.runs[key], workload.placement
        if not self.has_room and set(wanted) - set(run.placement):
            self.closed.add(key)
        if key in self.closed:
            wanted = tuple(task for task in wanted if task in run.placement)
        gone = tuple(task for task in run.placement if task not in wanted)
        self.leaving[key] = (*self.leaving.get(key, ()), *gone)
        run.placement = wanted
        self.graces.append(grace)
        self._fuse.burn()

    async def observe(self) -> Sequence[Observation]:
        return [
            replace(
                seen,
                leaving=self.leaving.get((seen.workload, seen.run), ()),
                closed=(seen.workload, seen.run) in self.closed,
            )
            for seen in await super().observe()
        ]

    def leave(self) -> None:
        """All tasks that were told to leave have ended."""
        self.leaving.clear()


class FakeServers(FakeBackend):
    """Notebook servers, started by a hub that the test plays. It knows processes only by `attach` and by launches.

    `processes` is the machine's process table: it outlives the double, as processes outlive a service.
    """

    kinds = frozenset({Kind.NOTEBOOK})

    def __init__(
        self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None, processes: set[int] | None = None
    ) -> None:
        super().__init__(clock, nodes, fuse)
        self.processes: set[int] = set() if processes is None else processes
        self.capabilities = Capabilities(forgetful=True, process_attachment=self)

    def restarted(self, nodes: Sequence[Node]) -> "FakeServers":
        """What a service that is started again finds on these nodes: the double has no memory, the machine lives on."""
        return type(self)(self._clock, nodes, self._fuse, self.processes)

    def check_process(self, owner: str, pid: int, started: float) -> None:
        if pid not in self.processes:
            raise Conflict(f"There is no process {pid}.")

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        self.check_process("", pid, started)
        if (workload, run) not in self.runs:
            raise Conflict(f"{workload} holds no share now.")
        held = self.runs[(workload, run)].pids
        if held and held[0] != pid and held[0] in self.processes:
            raise Conflict(f"Another process holds the share of {workload}.")
        self.runs[(workload, run)].pids = (pid, pid + 1)

    def _started(self, launch: Launch) -> FakeRun:
        run = super()._started(launch)
        if launch.detail.pid is not None:
            run.pids = (launch.detail.pid, launch.detail.pid + 1)
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


class SuspendingDriver:
    """The driver moves a share at the second look, if nothing refuses; that outlives the service."""

    can_move = True
    _clock: FixedClock
    _fuse: Fuse

    def __init__(self) -> None:
        #: The phase of each share that was ever suspended, by workload, as the driver knows it.
        self.shares: dict[str, ShareState] = {}
        #: Why a suspension fails; "" = it succeeds. Likewise for a resume, which then loses the GPU state.
        self.refuses, self.loses = "", ""
        #: Whether each move goes on for as long as this is True.
        self.is_slow = False
        #: Seconds that a suspension takes, by workload; 2 if it is not there.
        self.takes: dict[str, Seconds] = {}
        #: Shares that were seen on their way.
        self._under_way: set[str] = set()
        #: Each call, as (what, workload).
        self.calls: list[tuple[str, str]] = []

    def describe_refusal(self, workload: str, run: int) -> str:
        return ""

    def suspend(self, workload: str, run: int) -> None:
        self._fuse.burn()
        self.calls.append(("suspend", workload))
        if self._state(workload).phase is SharePhase.IN_USE:
            self.shares[workload] = ShareState(phase=SharePhase.SUSPENDING)
        self._fuse.burn()

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        self._fuse.burn()
        self.calls.append(("resume", workload))
        phase = self._state(workload).phase
        if phase is SharePhase.SUSPENDING:  # undone
            self.shares[workload] = ShareState(phase=SharePhase.IN_USE)
        elif phase is SharePhase.SUSPENDED:
            self.shares[workload] = replace(self._state(workload), phase=SharePhase.RESUMING)
        self._fuse.burn()

    def _state(self, workload: str) -> ShareState:
        return self.shares.get(workload, ShareState(phase=SharePhase.IN_USE))

    def _share_of(self, run: FakeRun) -> ShareState | None:
        if run.phase is not Phase.RUNNING:
            return None
        share = self._state(run.workload)
        if share.phase not in {SharePhase.SUSPENDING, SharePhase.RESUMING}:
            self._under_way.discard(run.workload)
        elif run.workload not in self._under_way:
            self._under_way.add(run.workload)
            return share
        if self.is_slow:
            return share
        if share.phase is SharePhase.SUSPENDING and self.refuses:
            share = ShareState(phase=SharePhase.IN_USE, failure=self.refuses, failed_at=self._clock.now())
        elif share.phase is SharePhase.SUSPENDING:
            took = self.takes.get(run.workload, Seconds(2))
            share = ShareState(phase=SharePhase.SUSPENDED, memory=MiB(1000), seconds=took)
        elif share.phase is SharePhase.RESUMING:
            share = ShareState(
                phase=SharePhase.IN_USE,
                failure=self.loses,
                failed_at=self._clock.now() if self.loses else None,
                seconds=Seconds(1),
            )
        self.shares[run.workload] = share
        return share


class SuspendsShares(SuspendingDriver, FakeServers):
    """Notebook servers whose shares the driver can suspend.

    A service that is killed during a suspension or a resume leaves it to the recovery, which undoes or finishes it.
    """

    def __init__(
        self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None, processes: set[int] | None = None
    ) -> None:
        FakeServers.__init__(self, clock, nodes, fuse, processes)
        SuspendingDriver.__init__(self)
        self.capabilities = replace(self.capabilities, suspension=self)

    def restarted(self, nodes: Sequence[Node]) -> "FakeServers":
        fresh = type(self)(self._clock, nodes, self._fuse, self.processes)
        recovered = {SharePhase.SUSPENDING: SharePhase.IN_USE, SharePhase.RESUMING: SharePhase.SUSPENDED}
        fresh.shares = {
            name: replace(share, phase=recovered.get(share.phase, share.phase)) for name, share in self.shares.items()
        }
        return fresh


class SuspendsJobs(SuspendingDriver, FakeBackend):
    """Runs of jobs that the driver can suspend. A suspended run is at no place, and is killed at once if it is to end.

    A run whose state is lost at its resume ends.
    """

    def __init__(self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None) -> None:
        FakeBackend.__init__(self, clock, nodes, fuse)
        SuspendingDriver.__init__(self)
        self.capabilities = Capabilities(suspension=self, keeps_unknown=True)

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        found = self.runs.get((workload, run))
        if found is not None and devices and self._state(workload).phase is SharePhase.SUSPENDED:
            found.placement = (replace(found.placement[0], devices=tuple(devices)),)
        super().resume(workload, run, devices)

    async def observe(self) -> Sequence[Observation]:
        seen = [self._away(each) for each in await super().observe()]
        for run in self.runs.values():
            if run.phase is Phase.RUNNING and self.loses and self._state(run.workload).failure == self.loses:
                self._end(run, Outcome.LOST, self.loses)
        return seen

    def lose_process(self, workload: str) -> None:
        """Somebody kills a process of the suspended run of a job."""
        self.shares[workload] = replace(self._state(workload), memory=MiB(0), ended=True)

    def is_away(self, workload: str) -> bool:
        return self._state(workload).phase in {SharePhase.SUSPENDED, SharePhase.RESUMING}

    def _away(self, seen: Observation) -> Observation:
        match seen.share:
            case ShareState(phase=SharePhase.SUSPENDED):
                return replace(seen, phase=Phase.STARTING, placement=())
            case ShareState(phase=SharePhase.RESUMING):
                return replace(seen, phase=Phase.STARTING)
        return seen

    def _told_to_stop(self, run: FakeRun) -> None:
        self._end(run, Outcome.KILLED if self.is_away(run.workload) else Outcome.PAUSED, "")

    def _end(self, run: FakeRun, outcome: Outcome, sentence: str) -> None:
        super()._end(run, outcome, sentence)
        self.shares.pop(run.workload, None)
        self._under_way.discard(run.workload)


class ServersArePods(FakeServers):
    """What a server's pod must carry is known at once, and names a device."""

    def __init__(
        self, clock: FixedClock, nodes: Sequence[Node], fuse: Fuse | None = None, processes: set[int] | None = None
    ) -> None:
        super().__init__(clock, nodes, fuse, processes)
        self.capabilities = replace(self.capabilities, pod_preparation=self)

    def pod_additions(self, workload: str, run: int) -> PodAdditions | None:
        named = self.named_devices(workload, run)
        return PodAdditions(annotations={"devices": ",".join(named.values())}) if named else None

    def named_devices(self, workload: str, run: int) -> Mapping[str, str]:
        known = [each.workload for each in self.launches if (each.workload.id, each.workload.run) == (workload, run)]
        return {slot: f"UUID of {slot}" for task in known[-1].placement for slot in task.devices} if known else {}

    def describe_preparation(self, workload: str, run: int) -> str:
        return ""

    async def release(self, workload: str, run: int) -> None:
        self._end(self.runs[(workload, run)], Outcome.SUCCEEDED, "")


def environment_of(launches: Sequence[Launch]) -> Mapping[str, str]:
    """What the newest launch told its processes."""
    return launches[-1].environment

"""A run as the backend knows it: its phase, the last views of its pods, and what was decided about it.

Rules
-----
- Everything but the launch is derived from pods, and derived again after a restart of the service. Only delays start
  anew, so a restart may make a run wait longer, never shorter.
- The phase changes by `Run.apply` only; see `phases` for the table.
- A run of a job ended when the last of its main containers did, as the nodes tell, also if no service watched. Clocks
  of nodes may be wrong: a run did not end before its start, nor before it was last seen alive, nor later than now.
  See docs/decisions/0303-let-the-nodes-tell-when-a-job-ended.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.pods.marks import describe_lost_marks
from jupyter_gq.backends.kubernetes.pods.results import Result
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.domain.amount import ONE_GPU, Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import RunKey, TaskPlacement, Workload

from .membership import Membership
from .phases import CREATES_PODS, ENDING, RunEvent, RunPhase, next_phase

#: Seconds after its deadline from which a pod that still exists is reported.
_OVERDUE = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseProgress:
    """The phase of a run, and when the run last entered each phase (seconds of the monotonic clock)."""

    phase: RunPhase
    entered: Mapping[RunPhase, float]

    def after(self, run: str, event: RunEvent, now: float) -> "PhaseProgress":
        """Return the progress after `event` at time `now`; raise `IllegalTransition` if the table has no arrow."""
        phase = next_phase(run, self.phase, event)
        return self if phase is self.phase else PhaseProgress(phase=phase, entered={**self.entered, phase: now})


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskDelays:
    """Times since when the start of a task is held up, each None while it is not (seconds of the monotonic clock)."""

    #: The pod has no node.
    unplaced: float | None = None
    #: The container is in trouble, such as an image that cannot be pulled.
    in_trouble: float | None = None
    #: The pod has a node, and its container has not started.
    not_started: float | None = None

    def restarted(self, now: float) -> "TaskDelays":
        """Return the same delays, each counted from now."""
        return TaskDelays(
            unplaced=None if self.unplaced is None else now,
            in_trouble=None if self.in_trouble is None else now,
            not_started=None if self.not_started is None else now,
        )


NO_DELAYS = TaskDelays()


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A decision of this backend to end a run, or to give up one task that joins it, although nobody asked for it."""

    result: Result
    #: The task that is the reason; None = the run as a whole.
    task: int | None = None
    #: Nodes that take nothing new for a while because of it.
    back_off: tuple[str, ...] = ()

    @classmethod
    def refuse(cls, sentence: str, task: int | None = None) -> "Verdict":
        """Return the verdict that the run, or one task of it, cannot have its place."""
        return cls(result=Result(outcome=Outcome.REFUSED, sentence=sentence), task=task)

    @property
    def event(self) -> RunEvent:
        """The event of the run's table for this verdict: REFUSED for that outcome, else ABORTED."""
        return RunEvent.REFUSED if self.result.outcome is Outcome.REFUSED else RunEvent.ABORTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """The pods' revision at the last examination of a run, so that an unchanged run is not examined again."""

    #: See `PodIndex.revision`.
    revision: int
    #: What was reported; None = the run has to be examined again even if its pods have not changed.
    report: Observation | None


@dataclass(kw_only=True, slots=True)
class Run:
    """A run of a job or of a notebook's ticket."""

    id: str
    number: int
    #: When this process first heard of the run, by the time of day: for people to read.
    launched_at: float
    #: The same moment by the monotonic clock.
    known_at: float
    #: What the controller asked for; None: the run is known by its pods only.
    launch: Launch | None = None
    progress: PhaseProgress = PhaseProgress(phase=RunPhase.KNOWN, entered={})
    #: The last view of the pod of each task.
    pods: dict[int, PodView] = field(default_factory=dict)
    #: The tasks whose pod was deleted.
    gone: set[int] = field(default_factory=set)
    delays: dict[int, TaskDelays] = field(default_factory=dict)
    #: The tasks of an elastic run; None: the run is not elastic, or its pods have not been listed yet.
    membership: Membership | None = None
    #: When the pods of tasks that leave are killed at the latest, by number, by the monotonic clock.
    leave_by: dict[int, float] = field(default_factory=dict)
    #: Since when the pods of tasks that join are being created, by number, by the monotonic clock.
    join_since: dict[int, float] = field(default_factory=dict)
    #: When all tasks were first seen to have begun, by the time of day.
    begun_at: float | None = None
    #: When the work of the run was last seen to go on, by the time of day; None: it was not seen yet.
    alive_at: float | None = None
    #: When the pods are killed at the latest, by the monotonic clock; None: nobody has asked for the end.
    stop_deadline: float | None = None
    #: Set in REFUSING and ABORTING.
    verdict: Verdict | None = None
    #: What is being waited for, for the owner.
    sentence: str = ""
    #: What is reported of a run that has ended.
    ended: Observation | None = None
    examined: Examined | None = None

    @property
    def key(self) -> RunKey:
        """The workload's id and the number of the run."""
        return (self.id, self.number)

    @property
    def phase(self) -> RunPhase:
        """The present phase; see `phases`."""
        return self.progress.phase

    @property
    def workload(self) -> Workload | None:
        """The workload as it was launched, with its present placement; None: the run is known by its pods only."""
        return self.launch.workload if self.launch is not None else None

    @property
    def is_new(self) -> bool:
        """Whether the launch wants pods to be created.

        The pods of a workload that runs or stops already are only looked for.
        """
        return self.workload is not None and self.workload.state not in (State.RUNNING, State.STOPPING)

    @property
    def creates_pods(self) -> bool:
        """Whether missing pods may be created now."""
        return self.phase in CREATES_PODS

    @property
    def is_ending(self) -> bool:
        """Whether the run shall end, for whatever reason, and has not ended."""
        return self.phase in ENDING

    @property
    def tasks(self) -> int:
        """The number of tasks, of an elastic run the most: as it was launched, or else as far as the pods tell it."""
        if self.workload is not None:
            return self.workload.tasks
        told = max((pod.of_tasks for pod in self.pods.values()), default=1)
        return max(told, max(self.pods, default=0) + 1)

    @property
    def is_elastic(self) -> bool:
        """Whether tasks may join and leave the run."""
        return self.workload is not None and self.workload.can_shrink

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the tasks that the run is to have now."""
        return tuple(range(self.tasks)) if self.membership is None else tuple(sorted(self.membership.members))

    @property
    def settled_workload(self) -> Workload | None:
        """The workload with the places of the tasks that the run cannot go on without: members that are not joining."""
        if self.workload is None or self.membership is None:
            return self.workload
        places = tuple(place for task, place in self.membership.members.items() if not self.is_joining(task))
        return replace(self.workload, placement=places)

    @property
    def member_pods(self) -> dict[int, PodView]:
        """The last view of the pod of each task that was not told to leave."""
        if self.membership is None or not self.membership.leaving:
            return self.pods
        return {task: pod for task, pod in self.pods.items() if task not in self.membership.leaving}

    @property
    def nodes(self) -> set[str]:
        """The nodes of all pods of the run, as far as they are known."""
        return {pod.node for pod in self.pods.values()}

    @property
    def is_closed(self) -> bool:
        """Whether no task can join the run now: one could not, the run is ending, or one of its tasks has ended."""
        return self.membership is not None and (
            self.membership.is_closed or self.is_ending or any(self.is_over(task) for task in self.membership.members)
        )

    @property
    def holds_devices(self) -> bool:
        """Whether the placement of the run has devices."""
        return self.workload is not None and any(task.devices for task in self.workload.placement)

    def apply(self, event: RunEvent, now: float) -> None:
        """Change the phase; raise `IllegalTransition`, and change nothing, if the table has no arrow for `event`."""
        self.progress = self.progress.after(f"{self.id} (run {self.number})", event, now)

    def request_stop(self, deadline: float, now: float) -> None:
        """Record that the run shall end by `deadline` on the monotonic clock, or earlier if that was asked for before.

        If the run was refused, the refusal is dropped: a run that shall stop needs no place any more.
        """
        self.apply(RunEvent.STOP_REQUESTED, now)
        self.stop_deadline = deadline if self.stop_deadline is None else min(self.stop_deadline, deadline)
        if self.phase is RunPhase.STOPPING:
            self.verdict = None
        self.examined = None

    def give_up(self, verdict: Verdict, now: float) -> None:
        """Record a verdict, and move the run to REFUSING or ABORTING; it has ended once its pods have.

        The caller has checked that there is no verdict yet.
        """
        self.apply(verdict.event, now)
        self.verdict, self.examined = verdict, None

    def restart_delays(self, now: float) -> None:
        """Count the delays of the start and of tasks that join from now; deadlines of stops stay.

        While the API server was away, nothing could be in time.
        """
        self.progress = replace(self.progress, entered=dict.fromkeys(self.progress.entered, now))
        self.delays = {task: delays.restarted(now) for task, delays in self.delays.items()}
        self.join_since = dict.fromkeys(self.join_since, now)

    def missing_tasks(self) -> list[int]:
        """Return the tasks whose pod was never seen."""
        return [task for task in self.numbers if task not in self.pods]

    def is_joining(self, task: int) -> bool:
        """Return whether this task joins a run that has begun: the run goes on without it if it cannot start."""
        if self.membership is None or self.begun_at is None or task not in self.membership.members:
            return False
        return task not in self.pods or not self.pods[task].has_run

    def forget_pod(self, task: int) -> None:
        """Drop what is known of the pod of a task that has left, so that the number can be given to another one."""
        self.pods.pop(task, None)
        self.gone.discard(task)
        self.delays.pop(task, None)
        self.join_since.pop(task, None)

    def set_membership(self, membership: Membership) -> None:
        """Store which tasks the run has; the placement of its workload is then that of all tasks that hold devices."""
        self.membership, self.examined = membership, None
        if self.launch is not None:
            self.launch = replace(self.launch, workload=replace(self.launch.workload, placement=membership.places))

    def live_pods(self) -> list[PodView]:
        """Return the pods that may hold devices, in the order of their tasks: those that exist and have not ended."""
        return [pod for task, pod in sorted(self.pods.items()) if task not in self.gone and not pod.finished]

    def named_devices(self) -> dict[str, str]:
        """Return, by slot, the devices that the live pods were given by name."""
        return {slot: device for pod in self.live_pods() for slot, device in zip(pod.slots, pod.devices, strict=False)}

    def is_over(self, task: int) -> bool:
        """Return whether the work of this task has ended, or its pod was deleted. Sidecars may run on in the pod."""
        return task in self.gone or (task in self.pods and self.pods[task].is_over)

    def observe(self) -> Observation:
        """Return the observation of a run that has not ended: STARTING until all tasks have begun, then RUNNING."""
        return Observation(
            workload=self.id,
            run=self.number,
            phase=Phase.STARTING if self.begun_at is None else Phase.RUNNING,
            since=Instant(self.launched_at if self.begun_at is None else self.begun_at),
            sentence=self.sentence or self._describe_closing() or self._describe_lost_marks(),
            placement=() if self.membership is None else _in_order(self.membership.members),
            leaving=() if self.membership is None else _in_order(self.membership.leaving),
            closed=self.is_closed,
        )

    def _describe_closing(self) -> str:
        return "" if self.membership is None else self.membership.describe_closing()

    def _describe_lost_marks(self) -> str:
        """Return what was taken from a pod of a run that has begun; "" if nothing was."""
        pods = self.live_pods() if self.begun_at is not None else []
        return next(filter(None, map(describe_lost_marks, pods)), "")

    def find_end(self, now: float) -> float:
        """Return when a run whose tasks are over ended. That time and `now` are in seconds since the epoch.

        Without the time of every task, those whose pod was never seen included, or if this backend has given the run
        up, the run ends now.
        """
        ended = [pod.ended.finished_at if pod.ended is not None else None for pod in self.member_pods.values()]
        told = [at for at in ended if at is not None]
        if self.verdict is not None or not told or len(told) < len(ended) or self.missing_tasks():
            return now
        known: list[float | None] = [self.alive_at]
        if self.workload is not None:
            known += [self.workload.started_at, self.workload.running_since]
        return min(now, max([*told, *(at for at in known if at is not None)]))

    def finish(self, result: Result, now: float, ended_at: float) -> Observation:
        """Move the run to ENDED; return the observation of its result, which is reported from now on.

        `now` is on the monotonic clock, `ended_at` in seconds since the epoch.
        """
        self.apply(RunEvent.FINISHED, now)
        self.ended = Observation(
            workload=self.id,
            run=self.number,
            phase=Phase.ENDED,
            since=Instant(ended_at),
            outcome=result.outcome,
            sentence=result.sentence if result.outcome is not Outcome.SUCCEEDED else "",
            disrupted=result.disrupted,
        )
        return self.ended


def _in_order(tasks: Mapping[int, TaskPlacement]) -> tuple[TaskPlacement, ...]:
    return tuple(place for _, place in sorted(tasks.items()))


def describe_overdue(pod: PodView, deadline: float, now: float) -> str:
    """Return a sentence on a pod that is still being deleted a minute after its deadline; "" otherwise."""
    late = now - deadline
    if not pod.terminating or late < _OVERDUE:
        return ""
    return (
        f"The pod {pod.name} on {pod.node} should have ended {late:.0f} s ago and still exists, so its devices are not "
        "free."
    )


def slots_in_use(runs: Iterable[Run]) -> dict[str, set[str]]:
    """Return, by node, the slots in the placements of runs that have not ended."""
    used: dict[str, set[str]] = {}
    for run in runs:
        if run.ended is None and run.workload is not None:
            for task in run.workload.placement:
                used.setdefault(task.node, set()).update(task.devices)
    return used


def shared_slots(runs: Iterable[Run]) -> dict[str, set[str]]:
    """Return, by node, the slots of which a live pod of these runs has a share."""
    found: dict[str, set[str]] = {}
    for run in runs:
        placement = run.workload.placement if run.workload is not None else ()
        shares = {
            slot
            for task in placement
            if run.workload is not None and run.workload.request_of(task.group).milli_per_device < ONE_GPU
            for slot in task.devices
        }
        for pod in run.live_pods() if shares else ():
            if pod.node:
                found.setdefault(pod.node, set()).update(shares.intersection(pod.slots))
    return found

"""Whether a job has to end although nobody asked for it. Pure: views of pods, facts about the cluster and a time go in.

Rules, in the order in which they are asked; the first that applies gives the verdict. The first five are asked of one
task after the other, and only of tasks whose pod has not ended.

- The changed-pod rule: a task whose pod the cluster made from its Job otherwise than was asked for is refused.
- The lost-node rule: a task whose node is lost ends the run as LOST.
- The unplaced rule: a pod without a node after `unschedulable_after` seconds is refused. If no scheduler has tried to
  place the pod, because none runs or because the pod has scheduling gates, three times as long is waited.
- The trouble rule: trouble that no time mends ends the run as FAILED at once. Trouble that may pass does so after
  `pull_timeout` seconds.
- The slow-start rule: a container that has not started `start_timeout` seconds after its pod was first seen on a node
  is refused. Such a pod shows no more than that, so the owner is told after a minute.
- The silent-Job rule: where Jobs create the pods, a Job without a pod after `reservation_timeout` seconds is refused
  with the message of its event.
- The taken-device rule: a run one of whose devices was given to others is LOST.
- The failed-task rule: if a task of several has ended otherwise than with success or a pause, the run ends like that
  task. The other tasks would wait for it for ever.
- The gang-start rule: several tasks that have not all begun `gang_start_timeout` seconds after their pods could be
  created are refused.
- The back-off rule: a refusal by the unplaced, slow-start or gang-start rule closes its nodes to new work for a while,
  unless that would close GPUs because of a pod without any, or no scheduler has tried to place the pod.

A run that shall end already is not judged. A verdict on a task that joins an elastic run gives up that task, and the
run goes on (see `resizing`).

See docs/decisions/0055-give-up-a-container-after-twenty-minutes.md.
See docs/decisions/0062-give-a-run-on-kubernetes-a-table-of-phases.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.kubernetes.api.changes import describe_changes
from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.results import Result, find_trouble, one_line, read_result
from jupyter_gq.backends.kubernetes.pods.unplaced import blames_node
from jupyter_gq.backends.protocol import Outcome

from .phases import RunPhase
from .run import NO_DELAYS, Run, TaskDelays, Verdict

#: Without a word of a scheduler, `unschedulable_after` is waited this many times.
_WITHOUT_A_WORD = 3
#: Seconds from which the owner is told of a container that has not started.
_TOLD_AFTER = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """The part of a run that the rules read."""

    id: str
    number: int
    tasks: int
    #: The last view of the pod of each task.
    pods: Mapping[int, PodView]
    #: The tasks whose work has ended, or whose pod was deleted.
    over: frozenset[int] = frozenset()
    delays: Mapping[int, TaskDelays] = field(default_factory=dict)
    has_begun: bool = False
    #: When pods could first be created; None: that was in an earlier process.
    creating_since: float | None = None
    #: The node of each task in the placement.
    planned_nodes: Mapping[int, str] = field(default_factory=dict)
    #: The tasks that the run is to have; None: all.
    numbers: tuple[int, ...] | None = None

    @classmethod
    def of(cls, run: Run) -> "RunFacts":
        """Return the facts of a run as they are now."""
        placement = run.workload.placement if run.workload is not None else ()
        placed, pods = run.numbers if run.membership is None else run.membership.numbers, run.member_pods
        return cls(
            id=run.id,
            number=run.number,
            tasks=run.tasks,
            pods=dict(pods),
            over=frozenset(task for task in pods if run.is_over(task)),
            delays=dict(run.delays),
            has_begun=run.begun_at is not None,
            creating_since=run.progress.entered.get(RunPhase.CREATING),
            planned_nodes={number: task.node for number, task in zip(placed, placement, strict=False)},
            numbers=run.numbers,
        )

    def missing_tasks(self) -> list[int]:
        """Return the tasks whose pod was never seen."""
        return [task for task in self.all_tasks() if task not in self.pods]

    def all_tasks(self) -> Sequence[int]:
        """Return the numbers of the tasks that the run is to have."""
        return range(self.tasks) if self.numbers is None else self.numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFacts:
    """The part of the cluster's state that the rules read."""

    #: By node, why what runs there counts as lost.
    lost: Mapping[str, str] = field(default_factory=dict)
    #: Nodes that offer devices.
    gpu_nodes: frozenset[str] = frozenset()
    #: Why a device of the run is no longer ours; "" = all are.
    taken_device: str = ""
    #: What the cluster says of the Job that `find_silent_job` named; None: nobody has answered yet.
    job_message: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The answer of the rules for a run at one time."""

    #: None: the run goes on.
    verdict: Verdict | None
    #: What keeps its tasks from starting, for the owner; "" = nothing.
    sentence: str
    #: By task, since when its start is held up: to be given to the next judgement.
    delays: Mapping[int, TaskDelays]


def judge(run: RunFacts, cluster: ClusterFacts, options: KubernetesOptions, now: float) -> Judgement:
    """Return a judgement by the rules of this module: whether the run has to end, and what delays its start.

    `now` is a time of the monotonic clock.
    """
    case, delays, sentence = _Case(run=run, cluster=cluster, options=options, now=now), dict(run.delays), ""
    for task, pod in sorted(run.pods.items()):
        if task in run.over:
            continue
        delays[task] = update_delays(delays.get(task, NO_DELAYS), pod, now)
        verdict, told = case.judge_task(pod, delays[task])
        sentence = told or sentence
        if verdict is not None:
            return Judgement(verdict=replace(verdict, task=task), sentence=sentence, delays=delays)
    verdict = case.judge_silent_job() or case.judge_devices() or case.judge_tasks_together()
    return Judgement(verdict=verdict, sentence=sentence, delays=delays)


def update_delays(before: TaskDelays, pod: PodView, now: float) -> TaskDelays:
    """Return since when the start of a task is held up, from its pod now and the delays `before`.

    A cause that lasts keeps its time; a new one begins `now`, and one that has passed is None.
    """
    if not pod.node:
        return TaskDelays(unplaced=now if before.unplaced is None else before.unplaced)
    trouble, _ = find_trouble(pod)
    if trouble:
        # A container that is out of trouble again has been starting all the time.
        since = now if before.in_trouble is None else before.in_trouble
        return TaskDelays(in_trouble=since, not_started=before.not_started)
    if _is_starting(pod):
        return TaskDelays(not_started=now if before.not_started is None else before.not_started)
    return NO_DELAYS


def find_silent_job(run: RunFacts, options: KubernetesOptions, now: float) -> str:
    """Return the name of a Job that has not created its pod in time; "" if there is none, or if no Jobs create pods."""
    missing = run.missing_tasks()
    if not options.as_jobs or not missing or run.has_begun or run.creating_since is None:
        return ""
    if now - run.creating_since < options.reservation_timeout:
        return ""
    return names.training_name(run.id, run.number, missing[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A run to be judged with all that the rules read, and a method for each rule or two."""

    run: RunFacts
    cluster: ClusterFacts
    options: KubernetesOptions
    now: float

    def judge_task(self, pod: PodView, delays: TaskDelays) -> tuple[Verdict | None, str]:
        """Return a verdict if one task has lost its node, was changed, or cannot start, or will not in time; else None.

        The text says what delays the start of the task, for the owner; "" if nothing does.
        """
        if pod.changed:
            return _refused(describe_changes(PODS.noun, pod.name, pod.namespace, pod.changed)), ""
        if lost := self.cluster.lost.get(pod.node, ""):
            return _lost(lost), ""
        if delays.unplaced is not None:
            return self._judge_unplaced(pod, delays.unplaced)
        if delays.in_trouble is not None:
            return self._judge_trouble(pod, delays.in_trouble)
        if delays.not_started is not None:
            return self._judge_slow_start(pod, delays.not_started)
        return None, ""

    def _judge_unplaced(self, pod: PodView, since: float) -> tuple[Verdict | None, str]:
        is_seen, why = bool(pod.unschedulable), pod.unschedulable or pod.held_back
        told = f"The cluster does not place the pod {pod.name} yet: {why}" if why else ""
        limit = self.options.unschedulable_after * (1 if is_seen else _WITHOUT_A_WORD)
        if self.now - since < limit:
            return None, told
        node = self.run.planned_nodes.get(pod.task, "")
        place = f" on {node}" if node else ""
        sentence = (
            f"The cluster did not place the pod {pod.name}{place} in {self.now - since:.0f} s: "
            f"{why or 'no scheduler has looked at it'}"
        )
        # A node is not at fault if nobody has tried to put the pod there, or if the pod fits nowhere.
        closed = self._nodes_to_close(node, pod) if is_seen and blames_node(why) else ()
        return _refused(sentence, closed), told

    def _judge_trouble(self, pod: PodView, since: float) -> tuple[Verdict | None, str]:
        sentence, may_pass = find_trouble(pod)
        if may_pass and self.now - since < self.options.pull_timeout:
            return None, sentence
        return Verdict(result=Result(outcome=Outcome.FAILED, sentence=sentence)), sentence

    def _judge_slow_start(self, pod: PodView, since: float) -> tuple[Verdict | None, str]:
        limit = self.options.start_timeout
        why = "the image is still being pulled, or a volume or the network is missing; the pod's events say which"
        if self.now - since >= limit:
            sentence = f"The container of the pod {pod.name} did not start on {pod.node} in {limit:.0f} s: {why}."
            return _refused(sentence, self._nodes_to_close(pod.node, pod)), ""
        if self.now - since < _TOLD_AFTER:
            return None, ""
        told = f"The pod {pod.name} is on {pod.node}, and the container has not started for more than a minute"
        return None, f"{told}: {why}. The job is planned again after {limit:.0f} s."

    def judge_silent_job(self) -> Verdict | None:
        """Return a refusal if a Job has made no pod in time and its events have been read; None otherwise."""
        name, message = find_silent_job(self.run, self.options, self.now), self.cluster.job_message
        if not name or message is None:
            return None
        told = f": {one_line(message.removeprefix('Error creating: '))}" if message else "; the Job's events say why."
        return _refused(f"The Job {name} has made no pod in {self.options.reservation_timeout:.0f} s{told}")

    def judge_devices(self) -> Verdict | None:
        """Return a verdict of LOST if a device of a run that has pods was given to others; None otherwise."""
        if not self.run.pods or not self.cluster.taken_device:
            return None
        return _lost(f"The device of the job was given to others: {self.cluster.taken_device}")

    def judge_tasks_together(self) -> Verdict | None:
        """Return a verdict on a run of several tasks: the result of the first task that has failed, or else a refusal.

        A run is refused if its tasks have not all begun in time. The verdict is None if neither holds, or for a single
        task.
        """
        run, limit = self.run, self.options.gang_start_timeout
        if run.tasks == 1:
            return None
        for task in sorted(run.over):
            result = read_result(run.pods[task], stopped=False)
            if result.outcome not in (Outcome.SUCCEEDED, Outcome.PAUSED):
                return Verdict(result=result, task=task)
        if run.has_begun or run.creating_since is None or self.now - run.creating_since < limit:
            return None
        waiting = sum(task not in run.pods or not run.pods[task].has_begun for task in run.all_tasks())
        starting = [pod for pod in run.pods.values() if _is_starting(pod)]
        closed = tuple(node for pod in starting for node in self._nodes_to_close(pod.node, pod))
        return _refused(
            f"The job did not start: {waiting} of {len(run.all_tasks())} tasks had not begun after {limit:.0f} s.",
            closed,
        )

    def _nodes_to_close(self, node: str, pod: PodView) -> tuple[str, ...]:
        """Return the node, to be closed for a while, unless it is "" or has GPUs while the pod holds none."""
        return (node,) if node and (pod.slots or node not in self.cluster.gpu_nodes) else ()


def _refused(sentence: str, back_off: tuple[str, ...] = ()) -> Verdict:
    return Verdict(result=Result(outcome=Outcome.REFUSED, sentence=sentence), back_off=back_off)


def _lost(sentence: str) -> Verdict:
    return Verdict(result=Result(outcome=Outcome.LOST, sentence=sentence))


def _is_starting(pod: PodView) -> bool:
    """Return whether the pod has its node and its main container has not started."""
    return bool(pod.node) and not pod.has_begun

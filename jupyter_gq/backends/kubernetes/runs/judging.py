"""Whether a run has to end although nobody told it to: lost, unplaced, in trouble, or no gang any more."""

from collections.abc import Callable

from jupyter_gq.backends.kubernetes.api.resources import JOBS
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.api.writes import Deeds, Thing
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.outcome import End, end_of_pod, one_line, trouble_of
from jupyter_gq.backends.kubernetes.pods.runs import Run
from jupyter_gq.backends.kubernetes.shares.places import Places
from jupyter_gq.backends.protocol import Outcome

#: Without any word of a scheduler, this many times `unschedulable_after` is waited.
_UNHEARD = 3
#: Seconds from which a container that has not started is spoken of.
_SPOKEN_OF = 60.0


class Judge:
    """Decides the end of training runs; it writes `Run.decided` and nothing else that others act on."""

    def __init__(
        self, options: KubernetesOptions, *, deeds: Deeds, places: Places, nodes: Nodes, now: Callable[[], float]
    ) -> None:
        self._options, self._deeds, self._places, self._nodes, self._now = options, deeds, places, nodes, now

    def judge(self, run: Run) -> None:
        """Whether it has to end although nobody told it to."""
        for task, pod in sorted(run.pods.items()):
            if run.over(task):
                continue
            lost = self._nodes.lost(pod.node) if pod.node else ""
            run.decided = (
                End(outcome=Outcome.LOST, sentence=lost)
                if lost
                else self._unplaced(run, pod) or self._trouble(run, pod)
            )
            if run.decided is not None:
                run.culprit = task
                return
        self._judge_jobs(run)
        self._judge_devices(run)
        self._judge_gang(run)

    def _unplaced(self, run: Run, pod: PodView) -> End | None:
        if pod.node:
            run.unplaced_since.pop(pod.task, None)
            return None
        now = self._now()
        since = run.unplaced_since.setdefault(pod.task, now)
        patience = self._options.unschedulable_after * (1 if pod.unschedulable else _UNHEARD)
        run.sentence = pod.unschedulable and f"The cluster does not place it yet: {pod.unschedulable}"
        if now - since < patience:
            return None
        node = _node_of(run, pod.task)
        why = pod.unschedulable or "no scheduler has looked at it"
        sentence = f"The cluster did not place it on {node} in {now - since:.0f} s: {why}"
        self._back_off(node, pod, sentence)
        return End(outcome=Outcome.REFUSED, sentence=sentence)

    def _back_off(self, node: str, pod: PodView, sentence: str) -> None:
        """Its node takes nothing new for a while, unless that would close GPUs for the sake of work without any."""
        if node and (pod.slots or not self._nodes.slots(node)):
            self._nodes.back_off.add(node, sentence)

    def _trouble(self, run: Run, pod: PodView) -> End | None:
        sentence, may_pass = trouble_of(pod)
        if not sentence:
            run.trouble_since.pop(pod.task, None)
            return self._starting(run, pod)
        run.sentence = sentence
        since = run.trouble_since.setdefault(pod.task, self._now())
        if may_pass and self._now() - since < self._options.pull_timeout:
            return None
        return End(outcome=Outcome.FAILED, sentence=sentence)

    def _starting(self, run: Run, pod: PodView) -> End | None:
        """Nobody may hold a device for ever for a volume that is not mounted: its pod shows no more than that."""
        if not _hangs(pod):
            run.starting_since.pop(pod.task, None)
            return None
        now, most = self._now(), self._options.start_timeout
        waited = now - run.starting_since.setdefault(pod.task, now)
        why = "its image is still being pulled, or a volume or the network is missing; its events say which"
        if waited >= most:
            sentence = f"The container of its pod {pod.name} did not start on {pod.node} in {most:.0f} s: {why}."
            self._back_off(pod.node, pod, sentence)
            return End(outcome=Outcome.REFUSED, sentence=sentence)
        if waited >= _SPOKEN_OF:
            told = f"Its pod {pod.name} is on {pod.node}, and its container has not started for more than a minute"
            run.sentence = f"{told}: {why}. It is planned again after {most:.0f} s."
        return None

    def _judge_jobs(self, run: Run) -> None:
        """Where Jobs make the pods, a refused pod is told to nobody but its Job."""
        since = run.making_since
        late = since is not None and self._now() - since >= self._options.reservation_timeout
        missing = [task for task in range(run.tasks) if task not in run.pods]
        if self._options.as_jobs and late and missing and run.decided is None:
            name = names.training_name(run.id, run.number, missing[0])
            words = self._deeds.why_no_pod(Thing(resource=JOBS, namespace=self._options.training_namespace, name=name))
            if words is None:
                return
            told = f": {one_line(words.removeprefix('Error creating: '))}" if words else "; its events say why."
            sentence = f"The Job {name} has made no pod in {self._options.reservation_timeout:.0f} s{told}"
            run.decided = End(outcome=Outcome.REFUSED, sentence=sentence)

    def _judge_devices(self, run: Run) -> None:
        if run.workload is not None and run.pods and run.decided is None:
            failure = self._places.lost_devices(run.workload)
            if failure:
                run.decided = End(outcome=Outcome.LOST, sentence=f"Its device is in other hands: {failure}")

    def _judge_gang(self, run: Run) -> None:
        if run.decided is not None or run.tasks == 1:
            return
        ends = {task: end_of_pod(run.pods[task], stopped=False) for task in sorted(run.pods) if run.over(task)}
        for task, end in ends.items():
            if end.outcome not in (Outcome.SUCCEEDED, Outcome.PAUSED):
                # The others would wait for it for ever.
                run.decided, run.culprit = end, task
                return
        since = run.making_since
        if run.begun_at is None and since is not None and self._now() - since >= self._options.gang_start_timeout:
            waiting = sum(1 for task in range(run.tasks) if task not in run.pods or run.pods[task].phase == "Pending")
            sentence = f"{waiting} of its {run.tasks} tasks did not start in {self._options.gang_start_timeout:.0f} s."
            run.decided = End(outcome=Outcome.REFUSED, sentence=sentence)
            for pod in filter(_hangs, run.pods.values()):
                self._back_off(pod.node, pod, sentence)


def _hangs(pod: PodView) -> bool:
    """It has its node, and its container has not started."""
    return bool(pod.node) and pod.phase == "Pending"


def _node_of(run: Run, task: int) -> str:
    placement = run.workload.placement if run.workload is not None else ()
    return placement[task].node if task < len(placement) else ""

"""Training runs as pods: one a task.

Rules
-----
1. All tasks of a run are made together once all of its devices are there, and go together.
2. What a run shall become is asked again at each look: `Deeds` does it once.
3. A task whose pod was seen is never made again: the controller starts another run.
4. Pods that have ended stay until the run is forgotten: only then is their end written down.
"""

import logging
from collections.abc import Callable, Sequence

from jupyter_gq.backends.kubernetes.api.resources import JOBS, PODS, SERVICES, Resource
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.api.writes import Deeds, Making, Thing, WriteState, thing_of
from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.manifests import as_job, gang_service, training_pod
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.outcome import End, end_of_pod, end_of_run
from jupyter_gq.backends.kubernetes.pods.runs import PodIndex, Run, RunKey, slots_in_use
from jupyter_gq.backends.kubernetes.shares.places import Places
from jupyter_gq.backends.protocol import Launch, Observation, Outcome
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload

from .judging import Judge

log = logging.getLogger(__name__)

#: Environment of the launch that is passed on; devices are named here, where their names are known.
_PASSED_ON = ("GQ_STOP_GRACE",)
#: Seconds after its grace from which a pod that still stands is spoken of.
_OVERDUE = 60.0
#: Seconds for which a run that was only found by its pods is not spoken of.
_SILENT_AT_FIRST = 10.0


class TrainingRuns:
    """All training runs that are known."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        deeds: Deeds,
        places: Places,
        nodes: Nodes,
        take: Callable[[PodView], None],
        clocks: Clocks,
    ) -> None:
        """`take` is given each pod that was made, before the watch shows it."""
        self._options, self._deeds, self._places, self._nodes = options, deeds, places, nodes
        self._take, self._now, self._day = take, clocks.elapsed, clocks.now
        self._judge = Judge(options, deeds=deeds, places=places, nodes=nodes, now=self._now)
        self.pods = PodIndex()
        self.runs: dict[RunKey, Run] = {}
        #: The cluster was looked at: before that no node is known, and no place could be told from one that is gone.
        self._looked = False
        #: Runs whose end is written down and whose pods are not gone.
        self._forgotten: dict[RunKey, Run] = {}

    # --- what the controller says

    def launch(self, launch: Launch) -> None:
        """From now on it is wanted; what is RUNNING or STOPPING is only looked for. Its pods are begun at once."""
        workload = launch.workload
        key = (workload.id, workload.run)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = Run(
                id=workload.id, number=workload.run, launched_at=self._day(), known_at=self._now()
            )
        if run.workload is not None or run.ended is not None:
            return
        run.workload, run.detail, run.environment = workload, launch.detail, launch.environment
        run.may_create = workload.state not in (State.RUNNING, State.STOPPING)
        if workload.state in (State.RUNNING, State.STOPPING):
            run.begun_at = workload.started_at or self._day()
        self._update(run)
        if not run.leaving:
            self._places.claim(workload, run.devices())
            if run.may_create and self._looked:
                self._make(run)

    def stop(self, key: RunKey, grace: Seconds) -> None:
        """It shall end within `grace` seconds."""
        run = self.runs.get(key) or self._found(key)
        if run is None or run.ended is not None:
            return
        deadline = self._now() + max(0.0, grace)
        run.stop_at = deadline if run.stop_at is None else min(run.stop_at, deadline)
        run.steady = None
        self._end_pods(run)

    def fail(self, key: RunKey, sentence: str) -> None:
        """It must not go on."""
        run = self.runs.get(key)
        if run is not None and run.ended is None and run.decided is None:
            run.decided, run.steady = End(outcome=Outcome.FAILED, sentence=sentence), None

    def forget(self, key: RunKey) -> None:
        """Its end is written down: its pods go."""
        run = self.runs.get(key) or self._found(key)
        self.runs.pop(key, None)
        if run is None:
            return
        self._release(run)
        self._update(run)
        self._forgotten[key] = run
        self._sweep(run)

    # --- looking

    def step(self) -> list[Observation]:
        """Do for each run what is next; return how they are."""
        self._looked = True
        for key in self.pods.runs():
            if key[0] and key not in self.runs and key not in self._forgotten:
                self._adopt(key)
        for run in list(self._forgotten.values()):
            self._update(run)
            self._sweep(run)
        calm = not self._nodes.anything_away()
        seen = [(run, run.ended or self._look(run, calm)) for run in list(self.runs.values())]
        # Whoever is alive is told to us again right after a restart; what nobody speaks of is reported then.
        hidden = self._now() - _SILENT_AT_FIRST
        return [observation for run, observation in seen if run.workload is not None or run.known_at <= hidden]

    def _look(self, run: Run, calm: bool) -> Observation:
        """At what may have changed only: of thousands of runs hardly any does between two looks."""
        revision = self.pods.revision(run.key)
        if calm and run.steady_at == revision and not self._places.is_failing(run.key):
            if run.steady is not None:
                return run.steady
            if not run.leaving and self._in_the_making(run):
                return run.present()
        seen = self._advance(run)
        calm_run = run.begun_at is not None and not run.leaving and run.ended is None and not run.sentence
        run.steady, run.steady_at = (seen if calm_run else None), revision
        return seen

    def restart_clocks(self) -> None:
        """The API server was away: nobody could be in time."""
        now = self._now()
        for run in self.runs.values():
            run.making_since = None if run.making_since is None else now
            run.unplaced_since = dict.fromkeys(run.unplaced_since, now)
            run.starting_since = dict.fromkeys(run.starting_since, now)
            run.trouble_since = dict.fromkeys(run.trouble_since, now)

    def unmade(self) -> int:
        """How many pods are wanted and not made yet."""
        return sum(
            max(0, run.tasks - self.pods.count(key))
            for key, run in self.runs.items()
            if run.begun_at is None and not run.leaving
        )

    def slots_in_use(self) -> dict[str, set[str]]:
        """Slots of runs that have not ended, by node."""
        return slots_in_use(self.runs.values())

    def blocked(self) -> set[str]:
        """Slots on which a pod stands whose run is over, or which nobody has ever heard of."""
        slots: set[str] = set()
        for run in (*self._forgotten.values(), *self.runs.values()):
            if run.workload is None or run.ended is not None:
                slots.update(slot for pod in run.live() for slot in pod.slots)
        return slots

    def _adopt(self, key: RunKey) -> None:
        pods = self.pods.of_run(key)
        if all(pod.terminating and not pod.finished for pod in pods):
            # It ends already, and whoever is alive will be told of by `launch`.
            return
        run = self.runs[key] = Run(id=key[0], number=key[1], launched_at=self._day(), known_at=self._now())
        log.info("found a run by its pods: workload=%s run=%d", *key)
        self._update(run)

    def _found(self, key: RunKey) -> Run | None:
        if not self.pods.of_run(key):
            return None
        run = self.runs[key] = Run(id=key[0], number=key[1], launched_at=self._day(), known_at=self._now())
        self._update(run)
        return run

    def _update(self, run: Run) -> None:
        """Take in what its pods show."""
        run.pods.update({pod.task: pod for pod in self.pods.take_parted(run.key)})
        present = {pod.task: pod for pod in self.pods.of_run(run.key)}
        run.pods.update(present)
        run.gone = {task for task in run.pods if task not in present}

    def _advance(self, run: Run) -> Observation:
        self._update(run)
        self._note_beginning(run)
        if not run.leaving:
            if run.workload is not None and (devices := run.devices()):
                self._places.claim(run.workload, devices)
            self._judge.judge(run)
        if not run.leaving and run.may_create:
            self._make(run)
        if run.leaving:
            self._end_pods(run)
        if self._is_over(run):
            return self._end(run)
        if run.leaving:
            run.sentence = self._overdue(run)
        return run.present()

    def _note_beginning(self, run: Run) -> None:
        if run.begun_at is None and len(run.pods) >= run.tasks:
            begun = [pod.phase != "Pending" for pod in run.pods.values()]
            if all(begun):
                run.begun_at, run.sentence = self._day(), ""
                for pod in run.pods.values():
                    self._nodes.back_off.clear(pod.node)

    # --- making

    def _make(self, run: Run) -> None:
        workload = run.workload
        assert workload is not None
        missing = [task for task in range(workload.tasks) if task not in run.pods]
        if not missing:
            return
        image = run.detail.image or self._options.runner_image
        if not image:
            sentence = "No image is known for it: set c.KubernetesBackend.runner_image."
            run.decided = End(outcome=Outcome.FAILED, sentence=sentence)
            return
        places = self._places.places(workload)
        refused = next((place for place in places if place.refused), None)
        if refused is not None:
            run.decided = End(outcome=Outcome.REFUSED, sentence=refused.sentence)
            return
        waiting = next((place for place in places if place.added is None), None)
        if waiting is not None:
            run.sentence = waiting.sentence
            return
        run.making_since = self._now() if run.making_since is None else run.making_since
        makings = self._make_gang(workload) + [
            self._make_task(run, workload, task, added, image)
            for task in missing
            if (added := places[task].added) is not None
        ]
        self._take_answers(run, makings)

    def _make_gang(self, workload: Workload) -> list[Making]:
        if workload.tasks == 1:
            return []
        service = self._thing(SERVICES, names.gang_name(workload.id, workload.run))
        return [self._deeds.make(service, lambda: gang_service(workload, self._options), _ignore)]

    def _make_task(self, run: Run, workload: Workload, task: int, added: PodAdditions, image: str) -> Making:
        name = names.training_name(workload.id, workload.run, task)

        def pod() -> JsonObject:
            passed = {key: run.environment[key] for key in _PASSED_ON if key in run.environment}
            return training_pod(workload, task, added, passed, image, self._options)

        if self._options.as_jobs:
            return self._deeds.make(self._thing(JOBS, name), lambda: as_job(pod()), _ignore)
        return self._deeds.make(self._thing(PODS, name), pod, lambda made: self._take(pod_view(made)))

    def _take_answers(self, run: Run, makings: Sequence[Making]) -> None:
        refused = next((making for making in makings if making.state is WriteState.REFUSED), None)
        if refused is not None:
            run.decided = End(outcome=Outcome.REFUSED, sentence=refused.sentence)
            return
        run.sentence = next((making.sentence for making in makings if making.sentence), "")

    # --- ending

    def _end_pods(self, run: Run) -> None:
        if self._options.as_jobs:
            # First: a Job makes its pod again, if it is still there.
            for thing in self._wrappings(run):
                self._deeds.delete(thing)
        grace = self._options.gang_grace if run.stop_at is None else max(1.0, run.stop_at - self._now())
        for pod in run.live():
            self._deeds.delete(thing_of(pod), grace)

    def _is_over(self, run: Run) -> bool:
        if self._in_the_making(run):
            return False
        waiting = [pod for pod in run.live() if not self._nodes.lost(pod.node)]
        if waiting:
            return False
        return run.leaving or len(run.pods) >= run.tasks or not run.may_create

    def _in_the_making(self, run: Run) -> bool:
        resource = JOBS if self._options.as_jobs else PODS
        things = [
            self._thing(resource, names.training_name(run.id, run.number, task))
            for task in range(run.tasks)
            if task not in run.pods
        ]
        if run.tasks > 1:
            things.append(self._thing(SERVICES, names.gang_name(run.id, run.number)))
        return any(self._deeds.under_way(thing.resource, thing.namespace, thing.name) for thing in things)

    def _end(self, run: Run) -> Observation:
        self._release(run)
        end = self._end_of(run)
        log.info("run ended: workload=%s run=%d outcome=%s %s", run.id, run.number, end.outcome, end.sentence)
        return run.end(end, self._day())

    def _end_of(self, run: Run) -> End:
        stopped = run.stop_at is not None
        if run.decided is not None and not (stopped and run.decided.outcome is Outcome.REFUSED):
            ends = [run.decided]
            if run.tasks > 1 and run.culprit is not None:
                return End(
                    outcome=run.decided.outcome,
                    sentence=f"Task {run.culprit} of {run.tasks}: {run.decided.sentence}",
                )
            return ends[0]
        if not run.pods:
            return _never_seen(stopped, created=run.may_create)
        ends = [end_of_pod(pod, stopped=stopped) for pod in run.pods.values()]
        return end_of_run(ends)

    def _release(self, run: Run) -> None:
        if run.workload is not None:
            self._places.release(run.workload)

    def _overdue(self, run: Run) -> str:
        if run.stop_at is None or self._now() < run.stop_at + _OVERDUE:
            return run.sentence
        pod = next((pod for pod in run.live() if pod.terminating), None)
        if pod is None:
            return run.sentence
        late = self._now() - run.stop_at
        return (
            f"Its pod {pod.name} on {pod.node} should have ended {late:.0f} s ago and still stands; "
            "its devices are not free."
        )

    def _sweep(self, run: Run) -> None:
        """Delete what is left of a run whose end is written down."""
        standing = [pod for task, pod in run.pods.items() if task not in run.gone]
        # As long as its pods stand, whoever comes after a crash finds the run, and so the rest of it.
        rest = self._rest(run)
        if not all([self._deeds.delete(thing) for thing in rest]):
            return
        for pod in standing:
            self._deeds.delete(thing_of(pod))
        if standing:
            return
        self._forgotten.pop(run.key, None)
        self.pods.forget(run.key)
        for thing in rest:
            self._deeds.gone(thing.mark)
        namespace = self._options.training_namespace
        for resource in (PODS, JOBS):
            for task in range(run.tasks):
                self._deeds.forget(resource, namespace, names.training_name(run.id, run.number, task))
        for pod in run.pods.values():
            self._deeds.gone(pod.uid)

    def _rest(self, run: Run) -> list[Thing]:
        """What was made for it beside its pods."""
        rest = [] if run.tasks == 1 else [self._thing(SERVICES, names.gang_name(run.id, run.number))]
        return rest + self._wrappings(run) if self._options.as_jobs else rest

    def _wrappings(self, run: Run) -> list[Thing]:
        """The Jobs that made its pods."""
        return [self._thing(JOBS, names.training_name(run.id, run.number, task)) for task in range(run.tasks)]

    def _thing(self, resource: Resource, name: str) -> Thing:
        return Thing(resource=resource, namespace=self._options.training_namespace, name=name)


def _never_seen(stopped: bool, *, created: bool) -> End:
    if stopped and created:
        # It was told to end before it had begun.
        return End(outcome=Outcome.PAUSED)
    return End(outcome=Outcome.LOST, sentence="Its pods are gone.")


def _ignore(made: JsonObject) -> None:
    """The watch shows it soon."""

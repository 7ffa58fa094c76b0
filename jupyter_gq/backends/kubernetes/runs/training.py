"""Runs of jobs as pods: one pod for each task.

Rules
-----
- All tasks of a run are created together, once all of its devices are there, and are deleted together. Tasks of an
  elastic run may join and leave: see `resizing`.
- A task whose pod was seen is never created again: the controller starts another run.
- Pods whose work has ended stay until the run is forgotten, for only then is their result recorded. A sidecar may run
  on in such a pod. Until the pod is gone, its slots take no new work.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.api.writes import Creation, CreationState, Writes
from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.index import PodIndex
from jupyter_gq.backends.kubernetes.pods.results import Result, combine_results, name_task, read_result
from jupyter_gq.backends.kubernetes.shares.preparation import DevicePreparation
from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.protocol import Launch, Observation, Outcome
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import RunKey, TaskPlacement

from .judging import ClusterFacts, RunFacts, find_silent_job, judge
from .phases import RunEvent, RunPhase
from .resizing import RunResizer
from .run import Examined, Run, Verdict, describe_overdue, slots_in_use
from .run_objects import RunObjects

log = logging.getLogger(__name__)

#: Seconds for which a run that is known by its pods only is not reported.
_SILENT_AT_FIRST = 10.0


class TrainingRuns:
    """The runs of jobs that this process knows."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        writes: Writes,
        devices: DevicePreparation,
        nodes: Nodes,
        on_created: Callable[[PodView], None],
        clocks: Clocks,
    ) -> None:
        """Begin without runs. `on_created` is given each pod that was created, before the watch shows it."""
        self._options, self._devices, self._nodes = options, devices, nodes
        self._now, self._day = clocks.elapsed, clocks.now
        self._objects = RunObjects(options, writes=writes, on_created=on_created)
        self._resizer = RunResizer(options, objects=self._objects, devices=devices, now=clocks.elapsed)
        #: Returns the kept fields of the JSON of a pod of a job.
        self.view_pod = self._objects.templates.view
        self.pods = PodIndex()
        self.runs: dict[RunKey, Run] = {}
        self._observer = RunObserver()
        #: Runs whose last adoption or removal failed.
        self._failing: set[RunKey] = set()
        #: Whether there was a step yet. Before that no node is known, so a node that is not listed yet looks as if it
        #: were gone.
        self._has_stepped = False
        #: Runs in REMOVING.
        self._removing: dict[RunKey, Run] = {}

    # --- what the controller says

    def launch(self, launch: Launch) -> None:
        """Record that this run is wanted and claim its devices; do nothing if the run was launched or has ended.

        Begin to create its pods if the run is new and there was a step before. Pods that exist already are taken over.
        """
        workload = launch.workload
        key = (workload.id, workload.run)
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = self._new_run(key)
        if run.launch is not None or run.ended is not None:
            return
        run.launch, run.examined = launch, None
        if not run.is_new:
            run.begun_at = workload.started_at or self._day()
        elif run.phase is RunPhase.KNOWN and not (run.pods and all(map(run.is_over, run.pods))):
            # The others of tasks that are over were lost without a service, and are not created again.
            run.apply(RunEvent.LAUNCHED, self._now())
        self._read_pods(run)
        if not run.is_ending:
            self._devices.claim(workload, run.named_devices())
            if run.creates_pods and self._has_stepped:
                run.sentence = self._create_pods(run)

    def resize(self, key: RunKey, places: tuple[TaskPlacement, ...], grace: Seconds) -> None:
        """Let the run have one task at each of these places; see `backends.capabilities.RunResizing`."""
        run = self.runs.get(key)
        if run is not None:
            self._read_pods(run)
            self._resizer.resize(run, places, grace)

    def present_tasks(self, key: RunKey) -> tuple[int, ...]:
        """Return the numbers of the tasks that the run has now; none if it is unknown."""
        run = self.runs.get(key)
        return () if run is None else run.numbers

    def stop(self, key: RunKey, grace: Seconds) -> None:
        """Ask for the end of the run, and delete its pods with `grace` seconds.

        A later deadline than an earlier one has no effect. Nothing happens if the run is unknown or has ended.
        """
        run = self.runs.get(key) or self._find(key)
        if run is None or run.ended is not None:
            return
        run.request_stop(self._now() + max(0.0, grace), self._now())
        self._delete_pods(run)

    def fail(self, key: RunKey, sentence: str) -> None:
        """Record that the run ends as FAILED with this sentence, and let later steps delete its pods.

        Nothing happens if the run is unknown, has ended, or has a verdict already.
        """
        run = self.runs.get(key)
        if run is not None and run.ended is None and run.verdict is None:
            self._give_up(run, Outcome.FAILED, sentence)

    def forget(self, key: RunKey) -> None:
        """Forget a run, release its devices, and delete its objects in the cluster, now and in later steps.

        The caller must have recorded the result. Nothing happens if the run is unknown and has no pod.
        """
        run = self.runs.get(key) or self._find(key)
        self.runs.pop(key, None)
        self._observer.forget(key)
        if run is None:
            return
        self._release(run)
        self._read_pods(run)
        run.apply(RunEvent.FORGOTTEN, self._now())
        self._removing[key] = run
        self._remove(run)

    # --- each step

    def step(self) -> list[Observation]:
        """Advance each run by what its pods and its devices allow now; return the observations for the controller.

        A run that is known by its pods only is returned from 10 seconds after it was found.
        """
        self._has_stepped = True
        for key in self._unknown_runs():
            self._attempt(key, "found by its pods", partial(self._adopt, key))
        for run in list(self._removing.values()):
            self._attempt(run.key, "removed", partial(self._remove_again, run))
        # After a restart the controller soon launches all that it knows. Only the rest is reported as found. Until then
        # no run ends by itself: which tasks it has is not known from its pods alone.
        hidden = self._now() - _SILENT_AT_FIRST
        told = {key for key, run in self.runs.items() if run.launch is not None or run.known_at <= hidden}
        due = [run for run in self.runs.values() if run.key in told or run.is_ending]
        reports = [(run, run.ended or self._examine_alone(run)) for run in due]
        return [report for run, report in reports if run.key in told]

    def _examine_alone(self, run: Run) -> Observation:
        """Return the observation of a run; if it cannot be examined, its last one, so that others are not affected."""
        report = self._observer.observe(run.key, Instant(run.launched_at), lambda: self._examine(run))
        if run.ended is None and not all(run.is_over(task) for task in run.pods):
            run.alive_at = self._day()
        return report

    def _remove_again(self, run: Run) -> None:
        self._read_pods(run)
        self._remove(run)

    def _attempt(self, key: RunKey, what: str, operation: Callable[[], object]) -> None:
        """Carry out an operation on one run; log its first failure, so that the step goes on for all other runs."""
        try:
            operation()
            self._failing.discard(key)
        except Exception:  # the defect or the malformed pod of one run must not stop the others
            if key not in self._failing:
                self._failing.add(key)
                log.exception("run %d of %s could not be %s; it is tried again", key[1], key[0], what)

    def _examine(self, run: Run) -> Observation:
        """Advance the run if something may have changed, and return its observation; else return the last one.

        Of thousands of runs hardly any changes between two steps.
        """
        revision, before = self.pods.revision(run.key), run.examined
        is_disturbed = self._devices.is_failing(run.key) or self._nodes.is_any_away(run.nodes)
        if before is not None and before.revision == revision and not is_disturbed:
            if before.report is not None:
                return before.report
            if not run.is_ending and self._objects.is_creating(run):
                return run.observe()
        report = self._advance(run)
        is_steady = run.begun_at is not None and not run.is_ending and run.ended is None and not report.sentence
        is_steady = is_steady and not report.leaving and not run.missing_tasks() and not self._objects.is_creating(run)
        run.examined = Examined(revision=revision, report=report if is_steady else None)
        return report

    def restart_clocks(self) -> None:
        """Count all delays from now: while the API server was away, nothing could be in time."""
        for run in self.runs.values():
            run.restart_delays(self._now())

    def count_missing_pods(self) -> int:
        """Return the number of pods that are wanted and not created yet."""
        creating = [(key, run) for key, run in self.runs.items() if run.creates_pods]
        return sum(max(0, len(run.numbers) - self.pods.count(key)) for key, run in creating)

    def slots_in_use(self) -> dict[str, set[str]]:
        """Return the slots of runs that have not ended, by node."""
        return slots_in_use(self.runs.values())

    def blocked_slots(self) -> set[str]:
        """Return the slots of live pods whose run has ended, or which the controller has not launched.

        Pods that terminate hold their devices too, also if their run is not adopted (see `_adopt`).
        """
        runs = (*self._removing.values(), *self.runs.values())
        pods = [pod for run in runs if run.launch is None or run.ended is not None for pod in run.live_pods()]
        pods += [pod for key in self._unknown_runs() for pod in self.pods.of_run(key) if not pod.finished]
        return {slot for pod in pods for slot in pod.slots}

    def _unknown_runs(self) -> list[RunKey]:
        """Return the runs that have pods and are neither known nor being removed."""
        return [key for key in self.pods.runs() if key[0] and key not in self.runs and key not in self._removing]

    def _new_run(self, key: RunKey) -> Run:
        return Run(id=key[0], number=key[1], launched_at=self._day(), known_at=self._now())

    def _adopt(self, key: RunKey) -> None:
        """Record a run that is known by its pods only, unless all are being deleted before their work has ended."""
        if all(pod.terminating and not pod.is_over for pod in self.pods.of_run(key)):
            return
        log.info("found a run by its pods: workload=%s run=%d", *key, extra={"workload": key[0], "run": key[1]})
        self._find(key)

    def _find(self, key: RunKey) -> Run | None:
        """Record and return a run that is known by its pods only; return None if it has no pod."""
        if not self.pods.of_run(key):
            return None
        run = self.runs[key] = self._new_run(key)
        self._read_pods(run)
        return run

    def _read_pods(self, run: Run) -> None:
        """Store the views of the run's pods, deleted ones included; tasks whose pod is gone are recorded in `run.gone`.

        The membership of an elastic run is known once the pods have been listed. If each task has had a pod and the run
        still creates pods, move the run to STARTING.
        """
        run.pods.update({pod.task: pod for pod in self.pods.take_deleted(run.key)})
        present = {pod.task: pod for pod in self.pods.of_run(run.key)}
        run.pods.update(present)
        run.gone = {task for task in run.pods if task not in present}
        if self._has_stepped:
            self._resizer.find_membership(run)
        if run.creates_pods and not run.missing_tasks():
            run.apply(RunEvent.PODS_SEEN, self._now())

    def _advance(self, run: Run) -> Observation:
        self._read_pods(run)
        self._note_beginning(run)
        if not run.is_ending:
            if run.workload is not None and (devices := run.named_devices()):
                self._devices.claim(run.workload, devices)
            self._judge(run)
        self._resizer.advance(run)
        if run.creates_pods:
            run.sentence = self._create_pods(run) or run.sentence
        elif not run.is_ending and not self._is_over(run):
            run.sentence = self._create_service(run) or run.sentence
        if run.is_ending:
            self._delete_pods(run)
        if self._is_over(run):
            return self._end(run)
        if run.is_ending:
            run.sentence = self._objects.describe_undeleted(run) or self._describe_overdue(run) or run.sentence
        return run.observe()

    def _note_beginning(self, run: Run) -> None:
        if run.missing_tasks() or not all(pod.has_begun for pod in run.member_pods.values()):
            return
        if run.begun_at is None:
            run.begun_at, run.sentence = self._day(), ""
            for pod in run.pods.values():
                self._nodes.back_off.clear(pod.node)
        if run.phase in (RunPhase.KNOWN, RunPhase.STARTING):
            run.apply(RunEvent.BEGAN, self._now())

    # --- judging

    def _judge(self, run: Run) -> None:
        facts = RunFacts.of(run)
        judgement = judge(facts, self._cluster_facts(run, facts), self._options, self._now())
        run.delays = dict(judgement.delays)
        verdict = judgement.verdict
        if verdict is None:
            run.sentence = judgement.sentence
            return
        if verdict.task is not None and run.is_joining(verdict.task):
            self._resizer.give_up(run, verdict)
        else:
            run.give_up(verdict, self._now())
        for node in verdict.back_off:
            self._nodes.back_off.add(node, verdict.result.sentence)

    def _cluster_facts(self, run: Run, facts: RunFacts) -> ClusterFacts:
        """Return the facts of the cluster by which a run is judged.

        If a Job has made no pod in time, its events are requested.
        """
        nodes = {pod.node for task, pod in facts.pods.items() if pod.node and task not in facts.over}
        job, settled = find_silent_job(facts, self._options, self._now()), run.settled_workload
        return ClusterFacts(
            lost={node: self._nodes.lost(node) for node in nodes},
            gpu_nodes=frozenset(node for node in nodes.union(facts.planned_nodes.values()) if self._nodes.slots(node)),
            taken_device=self._devices.describe_taken_device(settled) if settled is not None else "",
            job_message=self._objects.job_message(job) if job else None,
        )

    def _give_up(self, run: Run, outcome: Outcome, sentence: str) -> None:
        run.give_up(Verdict(result=Result(outcome=outcome, sentence=sentence)), self._now())

    # --- creating

    def _create_pods(self, run: Run) -> str:
        """Create the missing pods, and the service of a gang, once all devices are there.

        Return what is waited for, as a sentence. The run is given up, and "" returned, if it has no image, or if its
        devices or its objects are refused.
        """
        workload = run.workload
        assert workload is not None
        assert run.launch is not None
        if not self._objects.image_of(run.launch):
            self._give_up(run, Outcome.FAILED, "No image is known for the job: set c.KubernetesBackend.runner_image.")
            return ""
        prepared = self._devices.prepare(workload)
        refused = next((each for each in prepared if each.is_refused), None)
        if refused is not None:
            self._give_up(run, Outcome.REFUSED, refused.sentence)
            return ""
        waiting = next((each for each in prepared if each.additions is None), None)
        if waiting is not None:
            return waiting.sentence
        if run.phase is RunPhase.WAITING:
            run.apply(RunEvent.DEVICES_READY, self._now())
        numbers = run.numbers if run.membership is None else run.membership.numbers
        missing = run.missing_tasks()
        additions = {
            task: each.additions
            for task, each in zip(numbers, prepared, strict=False)
            if task in missing and each.additions is not None
        }
        service = self._objects.create_service(workload)
        return self._read_answers(run, [*service, *self._objects.create_tasks(run.launch, additions)])

    def _create_service(self, run: Run) -> str:
        """Create the service of a gang whose pods exist, unless it is there; return what is waited for, as a sentence.

        The run is given up, and "" returned, if the cluster refuses it: the tasks would wait for each other for ever.
        """
        return "" if run.workload is None else self._read_answers(run, self._objects.create_service(run.workload))

    def _read_answers(self, run: Run, creations: Sequence[Creation]) -> str:
        """Give the run up if the cluster refuses one of its objects; return what is waited for, as a sentence."""
        refused = next((creation for creation in creations if creation.state is CreationState.REFUSED), None)
        if refused is not None:
            self._give_up(run, Outcome.REFUSED, refused.sentence)
            return ""
        return next((creation.sentence for creation in creations if creation.sentence), "")

    # --- ending

    def _delete_pods(self, run: Run) -> None:
        deadline = run.stop_deadline
        grace = self._options.gang_grace if deadline is None else max(1.0, deadline - self._now())
        self._objects.delete_pods(run, grace)

    def _is_over(self, run: Run) -> bool:
        """Return whether the work of the run has ended and none will begin. Pods on a lost node count as ended."""
        if run.creates_pods or self._objects.is_creating(run):
            return False
        return all([pod.is_over or self._nodes.lost(pod.node) for pod in run.live_pods()])

    def _end(self, run: Run) -> Observation:
        self._release(run)
        result = self._read_result(run)
        log.info(
            "run ended: workload=%s run=%d outcome=%s %s",
            run.id,
            run.number,
            result.outcome,
            result.sentence,
            extra={"workload": run.id, "run": run.number},
        )
        return run.finish(result, self._now(), run.find_end(self._day()))

    def _read_result(self, run: Run) -> Result:
        verdict, stopped = run.verdict, run.stop_deadline is not None
        if verdict is not None:
            return verdict.result if verdict.task is None else name_task(verdict.result, verdict.task, run.tasks)
        if pods := run.member_pods:
            results = {task: read_result(pod, stopped=stopped) for task, pod in pods.items()}
            # The tasks that an elastic run has now may include one that never began. Whether a run is elastic is known
            # from its launch only.
            unseen = run.missing_tasks() if run.workload is not None and run.membership is None else []
            unknown = Result(outcome=Outcome.PAUSED) if stopped else read_result(None, stopped=False)
            return combine_results({**results, **dict.fromkeys(unseen, unknown)}, run.tasks)
        if stopped and run.is_new:
            return Result(outcome=Outcome.PAUSED)  # the run was asked to end before any pod began
        return Result(outcome=Outcome.LOST, sentence="The pods of the job are gone.")

    def _release(self, run: Run) -> None:
        if run.workload is not None:
            self._devices.release(run.workload)

    def _describe_overdue(self, run: Run) -> str:
        """Return a sentence on a pod of an ending run that is still being deleted long after its time; "" if none."""
        pod = next((pod for pod in run.live_pods() if pod.terminating), None)
        if pod is None:
            return ""
        deadline = run.stop_deadline
        if deadline is None:  # nobody asked for the end: the run was given up
            deadline = run.progress.entered[run.phase] + self._options.gang_grace
        return describe_overdue(pod, deadline, self._now())

    def _remove(self, run: Run) -> None:
        """Delete the objects of a run in REMOVING: its Jobs and service first, then its pods.

        The run is dropped once no pod is left.
        """
        # The pods go last: as long as one exists, a service that starts after a crash finds the run and all the rest.
        if not self._objects.remove_others(run) or not self._objects.remove_pods(run):
            return
        self._removing.pop(run.key, None)
        self.pods.forget(run.key)
        self._objects.forget(run)

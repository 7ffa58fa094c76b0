"""The tasks that join and leave elastic runs of pods: `membership` computes them, and their pods change here.

Rules
-----
- The intent rule: the membership says which tasks a run is to have. Each step does what is next for each of them.
- The surplus rule: how the pod of a leaving task ends does not count for the result of the run. The pod keeps its
  devices until it is gone.
- The give-up rule: a task that cannot join is given up, and the others run on.

See docs/decisions/0180-resize-runs-of-pods.md.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.backends.kubernetes.api.writes import CreationState
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.shares.preparation import DevicePreparation, PreparedTask
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import TaskPlacement, Workload

from .membership import derive_membership
from .run import Run, Verdict
from .run_objects import RunObjects

log = logging.getLogger(__name__)


class RunResizer:
    """The tasks that join and leave runs."""

    def __init__(
        self,
        options: KubernetesOptions,
        *,
        objects: RunObjects,
        devices: DevicePreparation,
        now: Callable[[], float],
    ) -> None:
        self._options, self._objects, self._devices, self._now = options, objects, devices, now

    def find_membership(self, run: Run) -> None:
        """Derive the membership of an elastic run from its record and its pods, and claim their devices.

        All pods must have been listed. A run that is not new and has no pod any more has no task. Nothing happens to a
        run whose membership is known.
        """
        if run.membership is None and run.workload is not None and run.is_elastic and run.ended is None:
            membership = derive_membership(run.workload, run.pods, fills=run.is_new or bool(run.pods))
            run.set_membership(membership)
            self._devices.claim(_at(run.workload, *membership.places), run.named_devices())

    def resize(self, run: Run, wanted: tuple[TaskPlacement, ...], grace: Seconds) -> None:
        """Let tasks leave and join so that the run has one at each wanted place; leaving ones get `grace` seconds.

        Raises `BackendError` if task 0 would have to leave.
        """
        if run.membership is None or run.is_ending or run.ended is not None:
            return
        membership = run.membership.resize(wanted, may_grow=not run.is_closed)
        if 0 in membership.leaving:
            raise BackendError(f"Task 0 of {run.id} cannot leave: the other tasks meet there.")
        for task in membership.leaving.keys() - run.membership.leaving.keys():
            run.leave_by[task] = self._now() + max(0.0, grace)
        if membership != run.membership:
            log.info("run resized: workload=%s run=%d tasks=%s", run.id, run.number, sorted(membership.members))
            run.set_membership(membership)
        if run.workload is not None:
            self._devices.claim(run.workload, run.named_devices())
        self.advance(run)

    def advance(self, run: Run) -> None:
        """Do what is next for the tasks that leave and join the run."""
        if run.membership is None or run.is_ending:
            return
        if (membership := run.membership.reopen(self._now())) is not run.membership:
            run.set_membership(membership)
        for task in run.membership.leaving:
            self._let_leave(run, task)
        if not run.creates_pods:
            self._let_join(run)

    def give_up(self, run: Run, verdict: Verdict) -> None:
        """Tell a task that cannot join to leave, and let none join for a while, or for good if the reason stays.

        `advance` then deletes its pod. Nothing happens if the verdict names no task.
        """
        if run.membership is None or verdict.task is None:
            return
        may_pass = verdict.result.outcome in (Outcome.REFUSED, Outcome.LOST)
        log.warning("run %d of %s: task %d cannot join: %s", run.number, run.id, verdict.task, verdict.result.sentence)
        membership = run.membership.dismiss(verdict.task)
        run.set_membership(membership.close(verdict.result.sentence, self._now(), may_pass=may_pass))
        run.leave_by[verdict.task] = self._now() + self._options.gang_grace
        run.join_since.pop(verdict.task, None)

    def _let_leave(self, run: Run, task: int) -> None:
        """Have the pod of a task deleted; once it is gone, free its devices and its number."""
        usual = self._options.gang_grace if run.launch is None else run.launch.environment.get("GQ_STOP_GRACE")
        deadline = run.leave_by.setdefault(task, self._now() + float(usual or self._options.gang_grace))
        if run.membership is None or not self._objects.delete_task(run, task, max(1.0, deadline - self._now())):
            return
        place = run.membership.leaving[task]
        run.set_membership(run.membership.free(task))
        run.leave_by.pop(task)
        run.forget_pod(task)
        used = {slot for other in run.membership.places for slot in other.devices}
        if run.workload is not None:
            free = tuple(slot for slot in place.devices if slot not in used)
            self._devices.release(_at(run.workload, replace(place, devices=free)))

    def _let_join(self, run: Run) -> None:
        """Create the pods of the tasks that join, each once its devices are there; none joins a closed run."""
        for task in run.missing_tasks():
            if run.launch is None or run.membership is None:
                return
            if run.is_closed and not self._objects.is_creating_task(run, task):
                run.set_membership(run.membership.dismiss(task))
                continue
            (prepared,) = self._devices.prepare(_at(run.launch.workload, run.membership.members[task]))
            refusal = self._create(run, task, prepared)
            if refusal:
                self.give_up(run, Verdict.refuse(refusal, task))

    def _create(self, run: Run, task: int, prepared: PreparedTask) -> str:
        """Create the pod of a task that joins, if its devices are ready; return why it cannot be, or "".

        The run has a sentence that says what the task waits for.
        """
        if prepared.is_refused:
            return prepared.sentence
        if prepared.additions is None or run.launch is None:
            run.sentence = prepared.sentence
            return ""
        creations = self._objects.create_tasks(run.launch, {task: prepared.additions})
        waited = self._now() - run.join_since.setdefault(task, self._now())
        if self._options.as_jobs and waited >= self._options.reservation_timeout:
            return f"The Job of task {task} has made no pod in {waited:.0f} s; the Job's events say why."
        return next((each.sentence for each in creations if each.state is CreationState.REFUSED), "")


def _at(workload: Workload, *places: TaskPlacement) -> Workload:
    """Return the workload with these places alone, as the preparation of devices reads it."""
    return replace(workload, placement=places)

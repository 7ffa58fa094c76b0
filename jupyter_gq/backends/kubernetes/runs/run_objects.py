"""The objects of a job's run in the cluster: the pod or the Job of each task, and the service of a gang.

Rules
-----
- What shall exist or not is asked for again at each step: `Writes` does it once. The service of a gang is asked for as
  long as the run has work, for its creation may fail while that of the pods succeeds, also in an earlier process.
- A Job goes before its pod: a Job creates its pod again if the Job still exists.

See docs/decisions/0276-ask-for-the-service-of-a-gang-until-it-is-there.md.
"""

from collections.abc import Callable, Mapping

from jupyter_gq.backends.kubernetes.api.resources import JOBS, PODS, SERVICES, ApiResource
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.api.writes import Creation, ObjectRef, Writes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.manifests import (
    as_job,
    gang_service,
    training_pod,
    with_earlier_checkpoints,
    with_secrets,
)
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.job_pods import JobTemplates
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Workload

from .run import Run

#: Variables of the launch that are passed on. Devices are named here, where their names are known.
_PASSED_ON = ("GQ_STOP_GRACE",)


class RunObjects:
    """The writes to the objects of runs."""

    def __init__(self, options: KubernetesOptions, *, writes: Writes, on_created: Callable[[PodView], None]) -> None:
        """`on_created` is given each pod that was created, before the watch shows it."""
        self._options, self._writes, self._on_created = options, writes, on_created
        self.templates = JobTemplates()

    def create_tasks(self, launch: Launch, additions: Mapping[int, PodAdditions]) -> list[Creation]:
        """Ask for the pod or the Job of each of these tasks, with its additions; return the state of each creation.

        The launch must have an image, or the options one for all jobs.
        """
        return [self._create_task(launch, task, added) for task, added in additions.items()]

    def image_of(self, launch: Launch) -> str:
        """Return the image in which a run is to run; "" if none is known."""
        return launch.detail.image or self._options.runner_image

    def create_service(self, workload: Workload) -> list[Creation]:
        """Create the service by whose names the tasks of a gang meet; return the state of that, [] for one task."""
        if workload.tasks == 1:
            return []
        service = self._ref(SERVICES, names.gang_name(workload.id, workload.run))
        return [self._writes.create(service, lambda: gang_service(workload, self._options), _ignore)]

    def _create_task(self, launch: Launch, task: int, additions: PodAdditions) -> Creation:
        workload = launch.workload
        name = names.training_name(workload.id, workload.run, task)

        def pod() -> JsonObject:
            passed = {key: launch.environment[key] for key in _PASSED_ON if key in launch.environment}
            made = training_pod(workload, task, additions, passed, self.image_of(launch), self._options)
            made = with_earlier_checkpoints(made, workload, launch.detail.continue_from, self._options)
            return with_secrets(made, workload.owner, launch.detail.secrets, self._options)

        if self._options.as_jobs:
            return self._writes.create(self._ref(JOBS, name), lambda: self.templates.add(as_job(pod())), _ignore)
        return self._writes.create(self._ref(PODS, name), pod, lambda created: self._on_created(pod_view(created)))

    def is_creating(self, run: Run) -> bool:
        """Return whether a request to create an object of the run may be on its way to the API server."""
        if run.tasks > 1 and self._writes.is_creating(self._ref(SERVICES, names.gang_name(run.id, run.number))):
            return True
        leaving = () if run.membership is None else run.membership.leaving
        awaited = [*run.missing_tasks(), *(task for task in leaving if task not in run.pods)]
        return any(self.is_creating_task(run, task) for task in awaited)

    def is_creating_task(self, run: Run, task: int) -> bool:
        """Return whether a request to create the pod or the Job of a task may be on its way to the API server."""
        return self._writes.is_creating(self._task_ref(run, task))

    def delete_pods(self, run: Run, grace: float) -> None:
        """Delete the Jobs of all tasks of a run, and all pods that have not ended, with `grace` seconds."""
        if self._options.as_jobs:
            for task in range(run.tasks):
                self._writes.delete(self._ref(JOBS, names.training_name(run.id, run.number, task)))
        for pod in run.live_pods():
            self._writes.delete(ObjectRef.of_pod(pod), grace)

    def describe_undeleted(self, run: Run) -> str:
        """Return a sentence on a pod of the run that the API server does not delete, with its reason; "" if none."""
        for pod in run.live_pods():
            if trouble := self._writes.deletion_trouble(pod.uid):
                return f"The pod {pod.name} on {pod.node} cannot be deleted, so its devices are not free: {trouble}"
        return ""

    def delete_task(self, run: Run, task: int, grace: float) -> bool:
        """Delete the pod of one task with `grace` seconds, and its Job.

        Returns whether the pod is gone and the API server has accepted the deletion of the Job. Once that is so, the
        number of the task can be given to another one.
        """
        if self.is_creating_task(run, task):
            return False
        job = self._ref(JOBS, names.training_name(run.id, run.number, task))
        is_job_gone = self._writes.delete(job) if self._options.as_jobs else True
        pod = run.pods.get(task)
        if pod is not None and task not in run.gone:
            self._writes.delete(ObjectRef.of_pod(pod), grace)
            return False
        if is_job_gone:
            self._forget_task(run, task)
            self._writes.forget_deletion(job.key)
        return is_job_gone

    def remove_others(self, run: Run) -> bool:
        """Delete what was created for the run beside its pods; return whether the API server accepted all deletions."""
        return all([self._writes.delete(ref) for ref in self._others(run)])

    def remove_pods(self, run: Run) -> bool:
        """Delete all pods of the run, ended ones included; return whether none is left."""
        left = [pod for task, pod in run.pods.items() if task not in run.gone]
        for pod in left:
            self._writes.delete(ObjectRef.of_pod(pod))
        return not left

    def forget(self, run: Run) -> None:
        """Forget which objects of the run were created and deleted; nothing of it may be left in the cluster."""
        for ref in self._others(run):
            self._writes.forget_creation(ref)
            self._writes.forget_deletion(ref.key)
        for task in range(run.tasks):
            self._forget_task(run, task)

    def job_message(self, name: str) -> str | None:
        """Return why the Job of this name creates no pod; see `Writes.ask_why_no_pod`."""
        return self._writes.ask_why_no_pod(self._ref(JOBS, name))

    def _forget_task(self, run: Run, task: int) -> None:
        name = names.training_name(run.id, run.number, task)
        self.templates.forget(name)
        for resource in (PODS, JOBS):
            self._writes.forget_creation(self._ref(resource, name))
        if task in run.pods:
            self._writes.forget_deletion(run.pods[task].uid)

    def _others(self, run: Run) -> list[ObjectRef]:
        services = [] if run.tasks == 1 else [self._ref(SERVICES, names.gang_name(run.id, run.number))]
        jobs = range(run.tasks) if self._options.as_jobs else ()
        return services + [self._ref(JOBS, names.training_name(run.id, run.number, task)) for task in jobs]

    def _task_ref(self, run: Run, task: int) -> ObjectRef:
        resource = JOBS if self._options.as_jobs else PODS
        return self._ref(resource, names.training_name(run.id, run.number, task))

    def _ref(self, resource: ApiResource, name: str) -> ObjectRef:
        return ObjectRef(resource=resource, namespace=self._options.training_namespace, name=name)


def _ignore(created: JsonObject) -> None:
    """Do nothing: the watch shows the object soon."""

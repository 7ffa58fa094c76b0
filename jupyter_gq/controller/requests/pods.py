"""The requests of pods: a job's runner asks for its token and files, and a node's agent for its orders.

Rules
-----
Known pods only: a pod gets the token of a task only if the backend knows it as that task of the job's present run.

Exchange before the bundle: each exchange replaces the token of the task, and none is possible for a pod that has the
bundle. The user's code can read the pod's own token, but runs only after that. A later pod of the same number, as
elastic jobs have, gets a token of its own.

Tokens end with the run, for pods and for processes: the next admission replaces or clears them, and between two runs
and after the last one no token is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import compare_digest

from jupyter_gq.backends.bundles import LogName, PodFiles
from jupyter_gq.backends.capabilities import AgentReports, PodLookup
from jupyter_gq.backends.protocol import hash_token
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.models import JobToken, NodeList, ResultsReport, RunSize, TaskDeviceCheck
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.log_names import share_of_log
from jupyter_gq.controller.records.changes import Change, DetailChange
from jupyter_gq.controller.signal import Signal
from jupyter_gq.domain.errors import Conflict, NotFound, NotThisRun
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

from .device_checks import DeviceChecks
from .file_threads import run_in_content_thread, run_in_file_thread
from .project_files import ProjectFiles

#: Key of a bundle's document for the executed notebook of the earlier runs.
EXECUTED = "executed"
#: Number of nodes for which the last orders are remembered.
MOST_NODES = 10_000


class JobPods:
    """The requests of the pods of jobs."""

    def __init__(self, context: Context, checks: DeviceChecks, files: ProjectFiles) -> None:
        self._context, self._checks, self._project_files = context, checks, files

    def exchange_token(self, job: str, pod: PodIdentity) -> JobToken:
        """Make a new token for the task of a pod, store its hash, and return the token; older tokens of the task end.

        Raises `NotThisRun` if the pod is no task of the job's present run, `Conflict` if this pod has the bundle or the
        job has no run now, and `NotFound` if there is no such job or jobs are not pods.
        """
        lookup = self._require_pod_lookup()
        record = self._running_record(job)
        workload = record.workload
        task = lookup.find_task(job, workload.run, pod)
        if task is None:
            raise NotThisRun(
                f"The pod {pod.pod} is no task of run {workload.run} of the job {job}, which is its present one, so "
                "it gets no token. A pod of an earlier run has nothing to do any more; let it end."
            )
        taken = record.detail.tasks_with_bundle
        if task in taken and record.detail.task_pods.get(task, pod.uid) == pod.uid:
            raise Conflict(
                f"Task {task} of run {workload.run} of the job {job} has its bundle already; its token is given out "
                "once. Should its runner have ended, the job starts again by itself."
            )
        token = self._context.new_token()
        holder = DetailChange(
            task_pods={**record.detail.task_pods, task: pod.uid},
            tasks_with_bundle=tuple(other for other in taken if other != task),
        )
        self._context.records.commit([_token_change(record, task, hash_token(token), holder)])
        log = LogName(job=job, owner=workload.owner, run=workload.run, task=task)
        return JobToken(
            token=token,
            run=workload.run,
            task=task,
            last_seq=self._context.last_seq(job),
            log_start=self._require_pod_files().log_end(log),
        )

    def find_task(self, job: str, token: str) -> int | None:
        """Return the number of the job's task to which a token belongs; None if the token is not valid now.

        Only the tokens of the job's present run are valid, and only until that run has ended.
        """
        record = self._context.records.get(job)
        if record is None or record.workload.kind is not Kind.TRAINING or not record.workload.holds:
            return None
        hashed = hash_token(token)
        if record.token_hash is not None and compare_digest(record.token_hash, hashed):
            return 0
        others = record.detail.task_tokens.items()
        return next((task for task, known in others if compare_digest(known, hashed)), None)

    async def read_bundle(self, job: str, task: int) -> JsonObject:
        """Return the bundle of a job, and record that the task has it, so that the task gets no further token.

        The key `executed` holds the executed notebook for task 0 of a run after the first, and None otherwise. Raises
        `NotFound` or `Conflict` if the job has no run, `NotFound` if it has no files or jobs are not pods,
        `ContentsUnavailable` if the files cannot be fetched now, and `NotThisRun` if the run ended meanwhile.
        """
        files, record = self._require_pod_files(), self._running_record(job)
        asking = _holder(record, task)
        # In a thread, with turns of the job. A place outside the database holds up no job whose bundle is inside.
        bundles, owner = self._context.bundles, record.workload.owner
        is_outside = await run_in_file_thread(job, bundles.is_outside, job, owner, None, 0)
        run = run_in_content_thread if is_outside else run_in_file_thread
        document = await run(job, files.bundle, job)
        if document is None:
            raise NotFound(f"The files of the job {job} are gone, so it cannot run.")
        record = self._running_record(job)
        if _holder(record, task) != asking:
            raise NotThisRun(f"The run of the job {job} ended while its bundle was fetched, so it gets none.")
        fetched = record.detail.tasks_with_bundle
        if task not in fetched:
            detail = DetailChange(tasks_with_bundle=tuple(sorted([*fetched, task])))
            self._context.records.commit([Change(workload=job, detail=detail)])
        executed = None
        if record.workload.run > 1 and task == 0:
            # In a thread: a notebook with many outputs must not keep other requests waiting.
            executed = await run(job, bundles.executed_notebook, job, owner)
        return {**document, EXECUTED: executed}

    async def check_devices(self, job: str, task: int, wait: float) -> TaskDeviceCheck:
        """Return the device check of a task, once it is settled or after `wait` seconds.

        Raises `NotFound` or `Conflict` if the job has no run, and `NotFound` if jobs are not pods.
        """
        return await self._checks.wait(lambda: self._running_record(job).workload, task, wait)

    def read_size(self, job: str) -> RunSize:
        """Return the numbers of the tasks that a job has now, with the least and the most tasks that it may have.

        Raises `NotFound` or `Conflict` if the job has no run, and `NotFound` if jobs are not pods.
        """
        lookup, workload = self._require_pod_lookup(), self._running_record(job).workload
        present = lookup.present_tasks(workload.id, workload.run)
        return RunSize(tasks=list(present), least=workload.min_members, most=workload.tasks)

    def store_log(self, job: str, task: int, text: str, start: int | None = None) -> None:
        """Store `text` as the next part of the log of a task of the present run, from byte `start` on.

        Without `start`, `text` is the end of the log and replaces what was there, as older runners send it.

        Raises `NotFound` or `Conflict` if the job has no run, and `NotFound` if jobs are not pods.
        """
        files, record = self._require_pod_files(), self._running_record(job)
        workload = record.workload
        log = LogName(job=job, owner=workload.owner, run=workload.run, task=task)
        if start is None:
            files.put_log(log, text)
        else:
            files.append_log(log, start, text, share_of_log(self._context.settings.max_log_bytes, workload.tasks))

    async def add_result_parts(self, job: str, contents: Sequence[str]) -> None:
        """Store parts of what a job brings back, which are base64, for its owner.

        Raises `NotFound` if jobs are not pods, or if the job does not exist or has ended; `Conflict` if it waits;
        another `UserError` for a part that is not base64, empty or too large; `LimitReached` if the owner's parts would
        exceed the limit of a user; and `ContentsUnavailable` if large parts cannot be stored now.
        """
        self._require_pod_files()
        await self._project_files.add(self._running_record(job).workload.owner, contents)

    def store_results(self, job: str, report: ResultsReport) -> None:
        """Store what a job brings back, in place of an earlier report; its parts were sent before.

        Raises `NotFound` or `Conflict` if the job has no run, `NotFound` if jobs are not pods, `TooLarge` above the
        limit of a job, and `Conflict` if parts are missing.
        """
        files, owner = self._require_pod_files(), self._running_record(job).workload.owner
        self._project_files.keep_results(job, owner, report.contents)
        files.put_results(job, report.model_dump())

    def image_of(self, ticket: str) -> str:
        """Return the container image of the notebook with this ticket; "" if unknown, or if notebooks are not pods."""
        lookup = self._context.backend_of(Kind.NOTEBOOK).capabilities.pod_lookup
        return "" if lookup is None else lookup.image_of(ticket)

    def _running_record(self, job: str) -> Record:
        """Return the record of a job that holds devices for a run.

        Raises `NotFound` if there is no such job or it has ended, and `Conflict` if it has no run now.
        """
        record = self._context.records.find_unfinished(job)
        if record is None or record.workload.kind is not Kind.TRAINING:
            raise NotFound(f"There is no job {job!r} that could run: it has ended, or it never was.")
        if not record.workload.holds:
            raise Conflict(f"The job {job} has no run now: its last one has ended, and with it all that it could do.")
        return record

    def _require_pod_lookup(self) -> PodLookup:
        """Return the port of the backend that knows the jobs' pods; raise `NotFound` if jobs are not pods."""
        lookup = self._context.backend_of(Kind.TRAINING).capabilities.pod_lookup
        if lookup is None:
            raise NotFound("The jobs of this service are no pods: their runners were given their tokens.")
        return lookup

    def _require_pod_files(self) -> PodFiles:
        """Return the port through which pods get bundles and leave logs; raise `NotFound` if jobs are not pods."""
        files = self._context.bundles.pod_files
        if files is None:
            raise NotFound("The jobs of this service read and write their files themselves, on its own machine.")
        return files


def _holder(record: Record, task: int) -> tuple[int, str | None]:
    """Return the number of a job's run, and the uid of the pod that has the token of this task."""
    return record.workload.run, record.detail.task_pods.get(task)


def _token_change(record: Record, task: int, hashed: str, holder: DetailChange) -> Change:
    """Return the change that stores the hash of a task's token and its `holder`.

    The hash of task 0 is stored in the record, those of others in its detail.
    """
    if task == 0:
        return Change(workload=record.workload.id, token_hash=hashed, detail=holder)
    tokens = {**record.detail.task_tokens, task: hashed}
    return Change(workload=record.workload.id, detail={**holder, **DetailChange(task_tokens=tokens)})


@dataclass(kw_only=True, slots=True)
class NodeAgents:
    """The requests of the agents on the nodes."""

    context: Context
    #: Fired when orders may have changed: after each step, and when a step is requested.
    changed: Signal
    #: The uid of the agent's pod and the last orders, by node.
    _last_answers: dict[str, tuple[str, AgentOrders]] = field(default_factory=dict)

    async def accept_report(self, node: str, pod: PodIdentity, report: AgentReport, wait: float) -> AgentOrders:
        """Store the report of a node's agent, and return the orders for that agent.

        Returns at once if the orders differ from those that this pod got last. Otherwise waits until they change, or
        for `wait` seconds. Raises `NotFound` if no backend has agents.
        """
        agents = self._require_agent_reports()
        orders = agents.accept_report(node, report)
        elapsed = self.context.clock.elapsed
        until = elapsed() + wait
        while self._last_answers.get(node) == (pod.uid, orders) and (left := until - elapsed()) > 0:
            await self.changed.wait(left)
            orders = agents.orders(node)
        self._last_answers.pop(node, None)
        self._last_answers[node] = (pod.uid, orders)
        while (
            len(self._last_answers) > MOST_NODES
        ):  # the one that was heard longest ago, which costs it one answer at once
            del self._last_answers[next(iter(self._last_answers))]
        return orders

    def list_nodes(self) -> NodeList:
        """Return what each node with GPUs can do, as its agent told last; raise `NotFound` if no backend has agents."""
        return NodeList(nodes=list(self._require_agent_reports().describe_nodes()))

    def _require_agent_reports(self) -> AgentReports:
        """Return the port of the backend that receives agents' reports; raise `NotFound` if no backend has agents."""
        ports = (backend.capabilities.agent_reports for backend in self.context.backends)
        found = next((port for port in ports if port is not None), None)
        if found is None:
            raise NotFound("This service has no agents on nodes: it looks at its own devices.")
        return found

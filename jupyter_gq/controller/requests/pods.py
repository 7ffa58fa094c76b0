"""The requests of pods: the runner of a job asks for its token and files, the agent of a node for its orders.

Rules
-----
1. A pod gets the token of a task only if the backend knows it as that task of the job's present run.
2. Each exchange replaces the token of that task; once the task has its bundle there is none any more. So what the
   user's code could do with the pod's own token, which it can read, was done before it ran.
3. Tokens die with the run: the next admission replaces or clears them, and between two runs none is good.
"""

from dataclasses import dataclass, field
from secrets import compare_digest

from jupyter_gq.backends.bundles import PodFiles
from jupyter_gq.backends.capabilities import AgentReports, PodLookup
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.models import JobToken, TaskDeviceCheck
from jupyter_gq.controller.context import Context, token_hash
from jupyter_gq.controller.records.changes import Change, DetailChange
from jupyter_gq.controller.signal import Signal
from jupyter_gq.domain.errors import Conflict, NotFound, NotThisRun
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

from .device_checks import DeviceChecks

#: Key of a bundle's document under which a later run finds what the earlier ones have shown.
EXECUTED = "executed"
#: Of so many nodes it is remembered what their agents were told.
MOST_NODES = 10_000


class JobPods:
    """The requests of the pods of jobs."""

    def __init__(self, context: Context, checks: DeviceChecks) -> None:
        self._context, self._checks = context, checks

    def exchange_token(self, job: str, pod: PodIdentity) -> JobToken:
        """Return a new token for the task of this pod; raise `NotThisRun` if the pod is not of the present run."""
        lookup = self._pod_lookup()
        record = self._present(job)
        workload = record.workload
        task = lookup.find_task(job, workload.run, pod)
        if task is None:
            raise NotThisRun(
                f"The pod {pod.pod} is no task of run {workload.run} of the job {job}, which is its present one, so "
                "it gets no token. A pod of an earlier run has nothing to do any more; let it end."
            )
        if task in record.detail.tasks_with_bundle:
            raise Conflict(
                f"Task {task} of run {workload.run} of the job {job} has its bundle already; its token is given out "
                "once. Should its runner have ended, the job starts again by itself."
            )
        token = self._context.new_token()
        self._context.records.commit([_given(record, task, token_hash(token))])
        return JobToken(token=token, run=workload.run, task=task, last_seq=self._context.last_seq(job))

    def find_task(self, job: str, token: str) -> int | None:
        """Which task of the job's present run this token belongs to; None: it is none of them."""
        record = self._context.records.get(job)
        if record is None or record.workload.kind is not Kind.TRAINING or not self._alive(record):
            return None
        hashed = token_hash(token)
        if record.token_hash is not None and compare_digest(record.token_hash, hashed):
            return 0
        others = record.detail.task_tokens.items()
        return next((task for task, known in others if compare_digest(known, hashed)), None)

    def read_bundle(self, job: str, task: int) -> JsonObject:
        """Return the bundle of a job; from the second run on with the executed notebook, or None, under `executed`."""
        files, record = self._files(), self._present(job)
        document = files.bundle(job)
        if document is None:
            raise NotFound(f"The files of the job {job} are gone, so it cannot run.")
        fetched = record.detail.tasks_with_bundle
        if task not in fetched:
            detail = DetailChange(tasks_with_bundle=tuple(sorted([*fetched, task])))
            self._context.records.commit([Change(workload=job, detail=detail)])
        executed = None
        if record.workload.run > 1 and task == 0:
            executed = self._context.bundles.executed_notebook(job, record.workload.owner)
        return {**document, EXECUTED: executed}

    async def check_devices(self, job: str, task: int, wait: float) -> TaskDeviceCheck:
        """Return the device check of a task; wait at most `wait` seconds until it is settled."""
        return await self._checks.wait(lambda: self._present(job).workload, task, wait)

    def store_log(self, job: str, task: int, text: str) -> None:
        """Keep the end of a task's log."""
        files, record = self._files(), self._present(job)
        files.put_log(job, record.workload.run, task, text)

    def image_of(self, ticket: str) -> str:
        """Return the image of the notebook that holds this ticket; "" if it is unknown."""
        lookup = self._context.backend_of(Kind.NOTEBOOK).capabilities.pod_lookup
        return "" if lookup is None else lookup.image_of(ticket)

    def _alive(self, record: Record) -> bool:
        # Where runs are processes, a run has ended when they are gone: its token harms nobody. A pod may be cut off
        # with its node, be given up, and come back.
        return record.workload.holds or self._context.backend_of(Kind.TRAINING).capabilities.pod_lookup is None

    def _present(self, job: str) -> Record:
        """Return the record of a job that has a run now; raise otherwise."""
        record = self._context.records.alive(job)
        if record is None or record.workload.kind is not Kind.TRAINING:
            raise NotFound(f"There is no job {job!r} that could run: it has ended, or it never was.")
        if not record.workload.holds:
            raise Conflict(f"The job {job} has no run now: its last one has ended, and with it all that it could do.")
        return record

    def _pod_lookup(self) -> PodLookup:
        lookup = self._context.backend_of(Kind.TRAINING).capabilities.pod_lookup
        if lookup is None:
            raise NotFound("The jobs of this service are no pods: their runners were given their tokens.")
        return lookup

    def _files(self) -> PodFiles:
        files = self._context.bundles.pod_files
        if files is None:
            raise NotFound("The jobs of this service read and write their files themselves, on its own machine.")
        return files


def _given(record: Record, task: int, hashed: str) -> Change:
    if task == 0:
        return Change(workload=record.workload.id, token_hash=hashed)
    tokens = {**record.detail.task_tokens, task: hashed}
    return Change(workload=record.workload.id, detail=DetailChange(task_tokens=tokens))


@dataclass(kw_only=True, slots=True)
class NodeAgents:
    """The requests of the agents on the nodes."""

    context: Context
    #: Fired when orders may have changed: after each step, and when one is asked for.
    changed: Signal
    #: What the agent of each node, by the uid of its pod, was told last.
    _told: dict[str, tuple[str, AgentOrders]] = field(default_factory=dict)

    async def accept_report(self, node: str, pod: PodIdentity, report: AgentReport, wait: float) -> AgentOrders:
        """Take in a report; answer at once when the orders are others than last time, else when they change."""
        agents = self._agents()
        orders = agents.accept_report(node, report)
        elapsed = self.context.clock.elapsed
        until = elapsed() + wait
        while self._told.get(node) == (pod.uid, orders) and (left := until - elapsed()) > 0:
            await self.changed.wait(left)
            orders = agents.orders(node)
        self._told.pop(node, None)
        self._told[node] = (pod.uid, orders)
        while len(self._told) > MOST_NODES:  # the one that was heard longest ago, which costs it one answer at once
            del self._told[next(iter(self._told))]
        return orders

    def _agents(self) -> AgentReports:
        ports = (backend.capabilities.agent_reports for backend in self.context.backends)
        found = next((port for port in ports if port is not None), None)
        if found is None:
            raise NotFound("This service has no agents on nodes: it looks at its own devices.")
        return found

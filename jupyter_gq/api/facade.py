"""What the api needs of the controller; `controller.controller.Controller` is it."""

from collections.abc import AsyncIterator
from typing import Protocol

from jupyter_gq.client import models
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonObject


class Subscription(Protocol):
    """The events that one caller may see: stored ones first, then each as it happens."""

    def __aiter__(self) -> AsyncIterator[models.ServiceEvent]:
        """Itself."""

    async def __anext__(self) -> models.ServiceEvent:
        """The next one, as soon as there is one."""

    def close(self) -> None:
        """Stop listening."""


class Facade(Protocol):
    """Every act that a route can cause. All raise `domain.errors`; an object that is not the caller's is not found."""

    def health(self) -> models.Health:
        """Whether the service is well."""

    def unready(self) -> str:
        """Why requests should go elsewhere or come later; "" = they can be answered."""

    def me(self, caller: Caller) -> models.Me:
        """Quota, choices and queues of the caller."""

    def queues(self, caller: Caller) -> models.QueueList:
        """The queues that the caller may see."""

    def devices(self, caller: Caller) -> models.DeviceList:
        """All devices; holders for admins."""

    def state(self) -> JsonObject:
        """The scheduler's whole input, and what it decides: `client.state`."""

    def submit(self, caller: Caller, submission: models.JobSubmission, key: str | None) -> tuple[models.JobView, bool]:
        """A new job, or the one that was sent with this key; True when it is new."""

    def preview(self, caller: Caller, request: models.JobRequest) -> models.Preview:
        """What would happen."""

    def cancel(self, caller: Caller, job_id: str) -> models.JobView:
        """End a job for good."""

    def job(self, caller: Caller, job_id: str) -> models.JobView:
        """One job."""

    def jobs(self, caller: Caller, *, limit: int, before: str | None, owner: str | None = None) -> models.JobList:
        """Jobs, newest first; `owner` is passed for admins only ("*" = everybody)."""

    def outputs(self, caller: Caller, job_id: str, after: int) -> models.OutputPage:
        """Pieces of output."""

    def executed_notebook(self, caller: Caller, job_id: str) -> JsonObject:
        """The executed notebook so far."""

    def log(self, caller: Caller, job_id: str) -> str:
        """The end of the log."""

    def open_ticket(self, caller: Caller, request: models.TicketRequest) -> tuple[models.TicketView, bool]:
        """A ticket for a share; True when it is new."""

    def ticket(self, caller: Caller, ticket_id: str) -> models.TicketView:
        """A ticket as it is now."""

    def close_ticket(self, caller: Caller, ticket_id: str) -> None:
        """Give it back."""

    def attach(self, caller: Caller, ticket_id: str, report: models.ProcessReport) -> None:
        """Which process holds the share."""

    async def server_devices(self, caller: Caller, ticket_id: str, wait: float) -> models.TaskDevices:
        """Whether the server of that ticket sees just its own devices; waits so many seconds until that is known."""

    def notebooks(self, caller: Caller, owner: str | None = None) -> models.NotebookList:
        """Notebooks that are alive or wait."""

    def report_activity(self, caller: Caller, server: str, report: models.ActivityReport) -> None:
        """What the kernels of a server do."""

    def keep(self, caller: Caller, server: str) -> models.NotebookView:
        """Answer an idle warning."""

    def task_of_token(self, job_id: str, token: str) -> int | None:
        """The task of that job whose token this is; None when it is none of them."""

    def exchange_token(self, job_id: str, pod: PodIdentity) -> models.JobToken:
        """The token with which a pod of that job's present run goes on."""

    def bundle(self, job_id: str, task: int) -> JsonObject:
        """What a pod needs to run the job."""

    async def devices_seen(self, job_id: str, task: int, wait: float) -> models.TaskDevices:
        """Whether a task sees just its own devices; waits so many seconds until that is known."""

    def put_log(self, job_id: str, task: int, text: str) -> None:
        """The end of a task's log so far."""

    async def report_node(self, node: str, pod: PodIdentity, report: AgentReport, wait: float) -> AgentOrders:
        """Take in what an agent sees; answer its orders, at once or when they change in so many seconds."""

    def append_outputs(self, job_id: str, events: list[JsonObject]) -> int:
        """Store pieces; the highest stored number."""

    def heartbeat(self, job_id: str, beat: models.Heartbeat) -> None:
        """A runner is alive."""

    def subscribe(self, caller: Caller, after: int | None) -> Subscription:
        """Listen from now on, after replaying what was stored since `after`."""

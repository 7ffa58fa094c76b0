"""Controllers that fail, named by how. What works is tested with the real one."""

import asyncio
from typing import Any

from jupyter_gq.api.pods import PodAuthenticator, Review
from jupyter_gq.client import models
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity

JOB_TOKEN = "token-of-job-1"


class AllNames:
    """Shows every reader what is written."""

    def render(self, document: str, reader: Caller | None) -> str:
        return document


class Raises:
    """A controller all of whose parts raise this error. It knows the token of job-1's first task and nothing else."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.acts: list[tuple[str, tuple[Any, ...]]] = []
        part = _Part(self)
        self.jobs = self.logs = self.job_lists = self.job_changes = self.job_deletions = part
        self.pods = self.files = self.tickets = self.events = part
        self.status = self.agents = self.drains = self.audit = self.overview = self.previews = part
        self.mentions = AllNames()


class _Part:
    def __init__(self, whole: Raises) -> None:
        self._whole = whole

    def find_task(self, job_id: str, token: str) -> int | None:
        return 0 if (job_id, token) == ("job-1", JOB_TOKEN) else None

    def __getattr__(self, act: str) -> Any:
        def fail(*given: Any, **named: Any) -> Any:
            self._whole.acts.append((act, given))
            raise self._whole.error

        return fail


class NeverAnswers(Raises):
    """A controller all of whose parts begin an answer and never end it."""

    def __init__(self) -> None:
        super().__init__(AssertionError())
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()
        self.jobs = self.drains = _Endless(self)


class _Endless:
    def __init__(self, whole: NeverAnswers) -> None:
        self._whole = whole

    def __getattr__(self, act: str) -> Any:
        async def wait(*given: Any, **named: Any) -> Any:
            self._whole.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._whole.cancelled.set()

        return wait


class KnowsThesePods:
    """A cluster that vouches for these tokens, and counts how often it was asked."""

    def __init__(self, **pods: PodIdentity) -> None:
        self.pods = dict(pods)
        self.asked: list[str] = []

    async def __call__(self, token: str, audience: str) -> PodIdentity | None:
        assert audience == "jupyter-gq"
        self.asked.append(token)
        await asyncio.sleep(0)
        return self.pods.get(token)


def a_pod(name: str, account: str, namespace: str, node: str = "node-a") -> PodIdentity:
    """A pod of the cluster; its uid is its name twice."""
    return PodIdentity(namespace=namespace, service_account=account, pod=name, uid=f"{name}-{name}", node=node)


PODS = {
    "agent": a_pod("gq-agent-x", "gq-agent", "nodes"),
    "runner": a_pod("gq-job-1-1-0", "gq-runner", "train"),
    "second": a_pod("gq-job-1-1-1", "gq-runner", "train"),
    "stranger": a_pod("gq-job-9-1-0", "gq-runner", "train"),
    "elsewhere": a_pod("gq-job-1-1-0", "gq-runner", "hub"),
    "default": a_pod("something", "default", "train"),
    "nowhere": a_pod("gq-agent-y", "gq-agent", "nodes", node=""),
}


def authenticator(review: Review | None = None, **options: Any) -> PodAuthenticator:
    """Knows `PODS`, unless another review is given."""
    review = review or KnowsThesePods(**PODS)
    return PodAuthenticator(review, nodes_namespace="nodes", training_namespace="train", **options)


async def cannot_review(token: str, audience: str) -> PodIdentity | None:
    """The API server does not answer."""
    raise BackendError("the API server does not answer: connection refused at 10.0.0.1")


class Streams:
    """Its event stream says what the test says; remembers who listened and from where."""

    def __init__(self) -> None:
        self.listeners: list[ScriptedSubscription] = []
        self.events, self.status = self, None
        self.mentions = AllNames()

    def subscribe(self, caller: Caller, after: int | None) -> "ScriptedSubscription":
        self.listeners.append(ScriptedSubscription(caller, after))
        return self.listeners[-1]


class ScriptedSubscription:
    """Yields what is put; None ends it."""

    def __init__(self, caller: Caller, after: int | None) -> None:
        self.caller, self.after = caller, after
        self.closed = asyncio.Event()
        self._events: asyncio.Queue[models.ServiceEvent | None] = asyncio.Queue()

    def change_caller(self, caller: Caller) -> None:
        self.caller = caller

    def put(self, event: models.ServiceEvent | None) -> None:
        self._events.put_nowait(event)

    def __aiter__(self) -> "ScriptedSubscription":
        return self

    async def __anext__(self) -> models.ServiceEvent:
        event = await self._events.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        self.closed.set()

"""The service in a thread of its own, for requests that a program made up; every kind of requester has a token."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tornado.netutil import bind_sockets
from traitlets.config import Config

from jupyter_gq.api.app import make_server
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import PageSize
from tests.fakes import RunsPods
from tests.patience import scaled
from tests.serving import application_of

from .conftest import PREFIX
from .fakes import PODS, authenticator
from .hubs import ADMIN, READ, SERVICE_TOKEN, SUBMIT, Hub, user
from .world import CONFIG, World, make_bundle, submission

Answer = TypeVar("Answer")

#: Small limits, so that no number of requests makes the service slow.
LIMITED: Config = deepcopy(CONFIG)
LIMITED.TrainingQueues.max_jobs_per_user = 20
LIMITED.TrainingQueues.max_waiting_tickets_per_user = 5
ANN = Caller(user="ann", groups=frozenset({"vision"}))
ROOT = Caller(user="root", admin=True)
#: Tokens of the Hub beyond those that every test has, with the Hub's answer about each.
HUB_ROLES = {
    # The Hub itself asks with short-lived tokens of the user whose page or server it is about.
    "the-hub": user("ann", SUBMIT, READ),
    "the-hub-reads": user("ann", READ),
    "server-of-ann": user("ann", SUBMIT, READ, "users:activity!user=ann", "access:servers!server=ann/"),
    "ann-own-scope": user("ann", f"{ADMIN}!user=ann", f"{SUBMIT}!user=ann", f"{READ}!user=ann"),
    "admin-of-one-user": user("bob", f"{ADMIN}!user=ann", READ, groups=("nlp",)),
    "admin-of-one-group": user("bob", f"{ADMIN}!group=vision", READ, groups=("nlp",)),
    "admin-of-one-server": user("bob", f"{ADMIN}!server=ann/", READ, groups=("nlp",)),
    "manager-of-queues": user("mona", SUBMIT, READ, groups=("vision", "nlp")),
    "any-service": user("root", ADMIN, READ, groups=(), access="access:services"),
}
#: A first piece of output, from which the executed notebook is made.
PIECE = {
    "seq": 1, "run": 1, "at": 1.0, "op": "append", "cell": "abc", "role": "target",
    "output": {"output_type": "stream", "name": "stdout", "text": "x"},
}  # fmt: skip
#: Every kind of token: of the Hub, of a job, of pods; one that nobody knows; None: no token.
ROLES = (
    "ann",
    "bob",
    "root",
    "job",
    "agent",
    "runner",
    "ann-reads",
    "ann-nothing",
    "ann-elsewhere",
    "prometheus",
    "default",
    "unknown",
    *HUB_ROLES,
    None,
)


@dataclass
class FuzzedService:
    """The service over a database of its own, with a job that runs and a notebook, which `renew` keeps there."""

    folder: Path
    #: The URL of the database; "" = SQLite in the folder.
    database: str = ""
    url: str = ""
    #: The token of each role that has another than its name, and the objects that exist, by their part of a path.
    tokens: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    #: How often each route gave each status.
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __enter__(self) -> "FuzzedService":
        ready: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(ready)))
        self._thread.start()
        ready.result(timeout=scaled(120))
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(timeout=scaled(120))
        self._loop.close()

    def renew(self) -> None:
        """Send a new job and open a new ticket in the place of those that a request has ended."""
        self._run(self._renew)

    def headers(self, role: str | None) -> dict[str, str]:
        return {} if role is None else {"Authorization": f"token {self.tokens.get(role, role)}"}

    def _run(self, act: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        return asyncio.run_coroutine_threadsafe(act(), self._loop).result(timeout=scaled(120))

    async def _renew(self) -> None:
        jobs, tickets, drains = (getattr(self._world.controller, name) for name in ("jobs", "tickets", "drains"))
        for drain in drains.list_drains().drains:
            await drains.end(ROOT, drain.name)
        if not self._runs("job") or not self._opens():
            self.parts.pop("job", None)
        jobs_there = [
            each.workload.id for each in self._world.store.unfinished() if each.workload.kind is Kind.TRAINING
        ]
        if "job" not in self.parts or len(jobs_there) > 10:
            for job in set(jobs_there) - {self.parts.get("job")}:
                jobs.cancel(ROOT, job)
        if "job" not in self.parts:
            await self._send_job()
        if not self._runs("ticket"):
            for ticket in tickets.list_notebooks(ROOT, "*").notebooks:
                tickets.close(ROOT, ticket.id)
            self.parts["ticket"] = tickets.open(ANN, TicketRequest(server="lab", gpus="0.25"))[0].id
        if self._world.store.outputs(self.parts["job"], 0, PageSize(entries=1)) == ():
            jobs.append_outputs(self.parts["job"], [PIECE])

    async def _send_job(self) -> None:
        """Send a new job, and wait until it runs."""
        job = self.parts["job"] = self._world.controller.jobs.submit(ANN, submission(make_bundle()), None)[0].id
        for _ in range(20):
            await self._world.steps(1)
            if self._runs("job"):
                break
        self._world.machine.pods[(job, 1, PODS["runner"].uid)] = 0
        self.tokens["job"] = self._world.job_token(job)

    def _opens(self) -> bool:
        """Whether the token of the job still speaks for it: the exchange for another one ends that."""
        return self._world.controller.pods.find_task(self.parts["job"], self.tokens["job"]) is not None

    def _runs(self, part: str) -> bool:
        record = self._world.store.get(self.parts[part]) if part in self.parts else None
        return record is not None and record.workload.state in {State.RUNNING, State.STARTING}

    async def _serve(self, ready: "Future[None]") -> None:
        hub = Hub()
        hub.tokens |= HUB_ROLES
        self._world = world = World(
            self.folder, machine_of=RunsPods, database=self.database, config=LIMITED, stores_files=True
        )
        try:
            await hub.start()
            self.parts = {"server": "lab", "node": PODS["agent"].node, "drain": "GPU-nowhere", "queue": "vision"}
            await self._renew()
            tokens = HubAuthenticator(hub.url, SERVICE_TOKEN)
            server = make_server(application_of(world.controller, tokens, PREFIX, pods=authenticator()))
            sockets = bind_sockets(0, "127.0.0.1")
            server.add_sockets(sockets)
            self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"
            ready.set_result(None)
            while not self._ended.is_set():
                await world.steps(1)
                await asyncio.sleep(0.25)
            server.stop()
            await server.close_all_connections()
            tokens.close()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise
        finally:
            world.close()
            await hub.stop()

"""The world of the controller's tests: a box with two GPUs, the people of the story, a service that can be killed."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from traitlets.config import Config

from jupyter_gq.client.models import (
    ActivityReport,
    JobSubmission,
    JobView,
    KernelActivity,
    NotebookView,
    ProcessReport,
    TicketRequest,
    TicketView,
)
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import Settings, build_settings
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.store.protocol import Store
from jupyter_gq.store.sql import SqlStore
from tests.fakes import (
    FakeBackend,
    FakeBundles,
    FakeProbe,
    FakeServers,
    FixedClock,
    FixedSettings,
    Fuse,
    ServiceKilled,
    StoreOfAServiceThatDies,
    a_node,
    counting,
)

ANN = Caller(user="ann", groups=frozenset({"vision"}))
CAROL = Caller(user="carol", groups=frozenset({"vision"}))
BOB = Caller(user="bob", groups=frozenset({"nlp"}))
ADMIN = Caller(user="root", groups=frozenset(), admin=True)

STORY = {
    "FixedQuota": {"default": "0.25", "groups": {"vision": "0.5"}},
    "Pools": {"pools": {"build": {"devices": 1}, "train": {"devices": 1}}, "over_subscription": 1.5},
    "TrainingQueues": {
        "queues": {
            "vision": {"quota": "0.5", "groups": ["vision"]},
            "nlp": {"quota": "0.5", "groups": ["nlp"]},
        }
    },
}


def story_settings(nodes: Iterable[Node] | None = None, **sections: dict[str, Any]) -> Settings:
    """The settings of the demo; each keyword replaces traits of one section."""
    config = Config(STORY)
    config.merge(Config(sections))
    return build_settings(config, tuple(nodes or (a_node(2),)))


#: The one cell of a job.
CELL = {"cell_type": "code", "id": "c1", "metadata": {}, "source": "print(1)", "outputs": [], "execution_count": None}


def a_submission(queue: str = "vision", gpus: str | float = "1", **changes: Any) -> JobSubmission:
    """A job with one target cell."""
    manifest = {
        "notebook_path": "digits.ipynb",
        "cwd": "/home/ann",
        "kernel": {"name": "python3", "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]},
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    notebook = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = {
        "name": "digits",
        "queue": queue,
        "gpus": gpus,
        "bundle": {"manifest": manifest, "notebook": notebook},
        **changes,
    }
    return JobSubmission.model_validate(document)


@cache
def _empty_database() -> bytes:
    """A database with the schema in place: migrating it anew for each test would take most of the time."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        SqlStore(f"sqlite:///{path}").close()
        return path.read_bytes()


class World:
    """One machine, one store, and the service on top; `restart` is a new service over the same machine and store."""

    def __init__(
        self,
        folder: Path,
        *,
        backend: type[FakeBackend] = FakeBackend,
        servers: type[FakeServers] = FakeServers,
        settings: Settings | None = None,
        nodes: tuple[Node, ...] | None = None,
    ):
        self.clock, self.fuse = FixedClock(), Fuse()
        self.nodes = nodes or (a_node(2),)
        self.backend = backend(self.clock, self.nodes, self.fuse)
        self.servers = servers(self.clock, self.nodes, self.fuse)
        self.settings = FixedSettings(settings or story_settings(self.nodes))
        self.bundles, self.probe = FakeBundles(), FakeProbe()
        self.new_id, self.new_token = counting(), counting("secret-")
        (folder / "service.sqlite").write_bytes(_empty_database())
        self.url = f"sqlite:///{folder / 'service.sqlite'}"
        self.sql = SqlStore(self.url)
        self.note_sweep()
        self.store: Store = StoreOfAServiceThatDies(self.sql, self.fuse)
        self._pids = counting()
        #: Whether the service may act.
        self.leads = True
        #: The ticket that each server process was attached to.
        self.attached: dict[int, str] = {}
        self.controller = self._service()

    def _service(self) -> Controller:
        return Controller(
            store=self.store,
            backends=(self.backend, self.servers),
            settings=self.settings,
            clock=self.clock,
            bundles=self.bundles,
            probe=self.probe,
            new_id=self.new_id,
            new_token=self.new_token,
            leads=lambda: self.leads,
            check_invariants=True,
        )

    def note_sweep(self) -> None:
        """A service has deleted what was old by now."""
        self.sql.put_setting("last_sweep", {"at": self.clock.now()})

    def restart(self) -> None:
        """The service was killed and is started again; what runs as processes runs on."""
        self.fuse.left = None
        # The servers' backend remembers in memory only: it is a new one.
        self.servers = self.servers.restarted(self.nodes)
        self.controller = self._service()

    def close(self) -> None:
        self.sql.close()

    async def step(self, times: int = 1, *, seconds: float = 1) -> None:
        for _ in range(times):
            await self.controller.step()
            await self.controller.forecasts.make()
            self.clock.forward(seconds)

    async def step_or_die(self) -> bool:
        """A step that may be cut off; True when it was (the service is up again afterwards)."""
        try:
            await self.step()
        except ServiceKilled:
            self.restart()
            return True
        return False

    # --- what people do

    def send(self, who: Caller, queue: str, gpus: str | float = "1", **changes: Any) -> str:
        view, _ = self.controller.jobs.submit(who, a_submission(queue, gpus, **changes), None)
        return view.id

    def job(self, job: str) -> JobView:
        return self.controller.jobs.show(ADMIN, job)

    def ask(self, who: Caller, gpus: str, server: str = "") -> TicketView:
        return self.controller.tickets.open(who, TicketRequest(server=server, gpus=gpus))[0]

    async def start_server(self, who: Caller, gpus: str, server: str = "") -> TicketView:
        """What the spawner does, when nobody is in the way: ask, wait, start the process, attach it."""
        ticket = self.ask(who, gpus, server)
        await self.step()
        assert self.controller.tickets.show(who, ticket.id).phase == "starting"
        self.attach(who, ticket.id)
        await self.step()
        return self.controller.tickets.show(who, ticket.id)

    def attach(self, who: Caller, ticket: str) -> int:
        pid = int(self._pids()) * 100
        self.servers.processes.add(pid)
        try:
            self.controller.tickets.attach(who, ticket, ProcessReport(pid=pid, started=self.clock.now()))
        except Conflict:
            self.servers.processes.discard(pid)
            raise
        self.attached[pid] = ticket
        return pid

    def server_dies(self, pid: int) -> None:
        self.servers.processes.discard(pid)

    def report(self, who: Caller, *, busy: bool | None = False, last: float = 0, server: str = "") -> None:
        kernel = KernelActivity(id="k1", busy=busy, last_active=last)
        self.controller.tickets.record_activity(who, server, ActivityReport(at=self.clock.now(), kernels=[kernel]))

    def notebook(self, who: Caller, server: str = "") -> NotebookView:
        (found,) = [each for each in self.controller.tickets.list_notebooks(who).notebooks if each.server == server]
        return found


def play(folder: Path, backend: type[FakeBackend], story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Tell a story in a world with that backend."""
    world = World(folder, backend=backend)
    try:
        asyncio.run(story(world))
    finally:
        world.close()

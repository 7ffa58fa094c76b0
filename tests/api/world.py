"""The real controller over a real store, and a machine that the test plays, behind the real API."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traitlets.config import Config

from jupyter_gq.backends.contents import Contents
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.controller.views.mentions import ShowNames
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FakeBackend, FakeBundles, FakeProbe, FakeServers, FixedClock, FixedSettings, a_node, counting

CONFIG = Config(
    FixedQuota={"default": "0.25", "groups": {"vision": "0.5"}},
    TrainingQueues={
        "queues": {
            "vision": {"quota": "0.5", "groups": ["vision"]},
            "nlp": {"quota": "0.5", "groups": ["nlp"]},
        }
    },
    Pools={"pools": {"build": {"devices": 1}, "train": {"devices": 1}}},
)


@dataclass
class World:
    """A service and what is around it."""

    folder: Path
    clock: FixedClock = field(default_factory=FixedClock)
    bundles: FakeBundles = field(default_factory=FakeBundles)
    machine_of: type[FakeBackend] = FakeBackend
    show_names: ShowNames = ShowNames.ALL
    config: Config = field(default_factory=lambda: CONFIG)
    #: The URL of the database; "" = SQLite in the folder.
    database: str = ""
    #: The files of jobs are kept in the database, as on a cluster.
    stores_files: bool = False
    #: Where large ones are kept then, outside the database.
    contents: Contents | None = None

    def __post_init__(self) -> None:
        nodes = (a_node(2),)
        self.machine = self.machine_of(self.clock, nodes)
        self.servers = FakeServers(self.clock, nodes)
        self.settings = FixedSettings(build_settings(self.config, nodes))
        self.store = SqlStore(self.database or f"sqlite:///{self.folder / 'service.sqlite'}")
        self.store.put_setting("last_sweep", {"at": self.clock.now()})  # an earlier service has deleted what was old
        # A machine that also runs notebooks is a cluster.
        runs_notebooks = Kind.NOTEBOOK in self.machine_of.kinds
        self.controller = Controller(
            store=self.store,
            backends=(self.machine,) if runs_notebooks else (self.machine, self.servers),
            settings=self.settings,
            clock=self.clock,
            bundles=StoredBundles(self.store, self.store, self.contents) if self.stores_files else self.bundles,
            probe=FakeProbe(),
            new_id=counting(),
            new_token=counting("token-"),
            show_names=self.show_names,
            check_invariants=True,
        )
        #: Two callers step in turns: the service takes one step at a time, too.
        self._stepping = asyncio.Lock()

    def close(self) -> None:
        self.store.close()

    async def steps(self, count: int = 3) -> None:
        for _ in range(count):
            async with self._stepping:
                await self.controller.step()

    def job_token(self, job: str) -> str:
        """What the runner of this job's present run was given."""
        return next(launch.token for launch in reversed(self.machine.launches) if launch.workload.id == job)


def submission(bundle: dict[str, Any], **changes: Any) -> JobSubmission:
    """A job of half a GPU in the queue vision."""
    return JobSubmission.model_validate(
        {"queue": "vision", "gpus": "0.5", "name": "digits", "bundle": bundle} | changes
    )


def piece(seq: int, text: str = "x") -> dict[str, Any]:
    """A piece of output with that number: text that a cell has printed."""
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return {"seq": seq, "run": 1, "at": 1.0, "op": "append", "cell": "abc", "role": "target", "output": output}


def make_bundle() -> dict[str, Any]:
    """The bundle of a job of one cell."""
    return {
        "manifest": {
            "notebook_path": "train.ipynb",
            "cwd": "/home/ann",
            "kernel": {"name": "python3", "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]},
            "targets": [{"cell_id": "abc", "source_hash": "0" * 64}],
        },
        "notebook": {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [
                {
                    "cell_type": "code",
                    "id": "abc",
                    "metadata": {},
                    "source": "print(1)",
                    "outputs": [],
                    "execution_count": None,
                }
            ],
        },
    }

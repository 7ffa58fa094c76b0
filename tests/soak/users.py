"""Users by script: each has a notebook server, sends jobs, cancels some, and listens to the events."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import JobSubmission

from .cells import draw_cell
from .plan import Plan
from .troubles import EXPLAINED_STATUSES
from .world import QUEUES, World, kernel_command

#: Statuses that say "not now": something is away, or too many jobs wait. An internal error is noted, and tried again.
_LATER = EXPLAINED_STATUSES | {429, 500}
_AWAY = (httpx.HTTPError, ServiceUnavailable)


@dataclass(slots=True)
class Sent:
    """A job that a user wanted, and what is known of it."""

    key: str
    user: str
    kind: str
    place: Path
    #: The id, once the service has accepted the job.
    id: str = ""
    cancelled: bool = False


@dataclass(slots=True)
class Tally:
    """What all users did."""

    sent: list[Sent] = field(default_factory=list)
    servers_started: int = 0
    retries: int = 0
    events: int = 0
    #: Streams that a trouble ended, and that were opened again.
    streams: int = 0
    #: Sentences about what no trouble explains.
    faults: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> list[Sent]:
        """The jobs that the service has accepted."""
        return [each for each in self.sent if each.id]


class User:
    """One user with a random source of their own."""

    #: GPUs of a job, of which one is drawn.
    amounts = ("0.25", "0.5", "0.5", "1")

    def __init__(self, world: World, plan: Plan, number: int, tally: Tally) -> None:
        self.name, self._world, self._plan, self._tally = plan.names[number], world, plan, tally
        self._queue, self._jobs = QUEUES[number % len(QUEUES)], plan.jobs_of(number)
        self._random = plan.random(self.name)

    async def live(self) -> None:
        """Do everything that the script says, for the seconds of the plan."""
        home = self._world.home(self.name)
        await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
        client = await self._patiently(lambda: self._world.service_client(self.name))
        listening = asyncio.create_task(self._listen(client)) if self._random.random() < 0.3 else None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_jobs(client))
                group.create_task(self._use_server(client))
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            client.close()

    # Jobs

    async def _send_jobs(self, client: ServiceClient) -> None:
        """Send this user's jobs, at random moments of the first nine tenths of the time."""
        rng = random.Random(f"{self._plan.seed}:{self.name}:jobs")
        loop = asyncio.get_running_loop()
        began = loop.time()
        moments = sorted(rng.uniform(0, 0.9 * self._plan.seconds) for _ in range(self._jobs))
        async with asyncio.TaskGroup() as group:
            for number, moment in enumerate(moments):
                await asyncio.sleep(max(0.0, began + moment - loop.time()))
                group.create_task(self._send_job(client, number))

    async def _send_job(self, client: ServiceClient, number: int) -> None:
        key = f"{self.name}-{number}"
        rng = random.Random(f"{self._plan.seed}:{key}")
        place = self._world.marks / key
        cell = draw_cell(rng, place)
        sent = Sent(key, self.name, cell.kind, place)
        self._tally.sent.append(sent)
        submission = self._describe(cell.source, key, rng.choice(self.amounts))
        view, _ = await self._patiently(lambda: client.submit(submission, key))
        sent.id = view.id
        if rng.random() < 0.1:
            await asyncio.sleep(rng.uniform(0, 15))
            sent.cancelled = True
            await self._cancel(client, sent)

    async def _cancel(self, client: ServiceClient, sent: Sent) -> None:
        async def cancel() -> None:
            try:
                await client.cancel(sent.id)
            except ServiceError as error:
                if error.status != 409:  # it has ended
                    raise

        await self._patiently(cancel)

    def _describe(self, source: str, name: str, gpus: str) -> JobSubmission:
        cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": source}
        manifest = {
            "notebook_path": f"{name}.ipynb",
            "cwd": str(self._world.home(self.name)),
            "kernel": {"name": "python3", "argv": kernel_command()},
            "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
        }
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [{**cell, "outputs": [], "execution_count": None}],
        }
        document = {"name": name, "queue": self._queue, "gpus": gpus}
        return JobSubmission.model_validate({**document, "bundle": {"manifest": manifest, "notebook": notebook}})

    # The notebook server

    async def _use_server(self, _client: ServiceClient) -> None:
        """Start a server with a share, use it for a while, stop it, and so on, until the time is over."""
        rng = random.Random(f"{self._plan.seed}:{self.name}:server")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._plan.seconds
        longest = max(20.0, self._plan.seconds / 4)
        await asyncio.sleep(rng.uniform(0, longest / 2))
        async with self._world.hub_client() as hub:
            while loop.time() < until:
                await self._start_server(hub, rng.choice(("0.25", "0.25", "0")))
                await asyncio.sleep(max(0.0, min(rng.uniform(5, longest), until - loop.time())))
                await self._stop_server(hub)
                await asyncio.sleep(max(0.0, min(rng.uniform(1, 20), until - loop.time())))

    async def _start_server(self, hub: httpx.AsyncClient, gpus: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            answer = await hub.post(f"/users/{self.name}/server", json={"user_options": {"gpus": gpus}})
            if answer.status_code in (201, 202):
                self._tally.servers_started += 1

    async def _stop_server(self, hub: httpx.AsyncClient) -> None:
        with contextlib.suppress(httpx.HTTPError):
            await hub.delete(f"/users/{self.name}/server")

    # Events

    async def _listen(self, client: ServiceClient) -> None:
        """Follow the events, and go on after each break with the last one seen."""
        last: int | None = None
        while True:
            stream = client.events(last)
            try:
                async for event in stream:
                    self._tally.events += 1
                    if event.id is None:
                        continue
                    if last is not None and event.id <= last and event.kind != "reset":
                        self._tally.faults.append(f"{self.name} was told event {event.id} after event {last}")
                    last = event.id
            except ServiceError:
                self._tally.streams += 1
                await asyncio.sleep(self._random.uniform(0.5, 3))
            finally:
                await stream.aclose()

    async def _patiently(self, act):
        """Return what `act` returns, trying again for as long as something is away; other refusals are raised."""
        pause = 0.5
        while True:
            try:
                return await act()
            except _AWAY:
                pass
            except ServiceError as error:
                # A proxy that was just started knows no routes yet, and answers in its own way.
                if error.status not in _LATER and error.problem.code != "unexpected_answer":
                    raise
                if error.status == 500:
                    self._tally.faults.append(f"{self.name} was answered: {error}")
            self._tally.retries += 1
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, 8.0)

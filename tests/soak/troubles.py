"""What goes wrong during a soak run. Each trouble is a class: it strikes, lasts, and is over when `strike` returns.

A trouble that kills or stops something notes what it hit, so that the checks know which ends are explained by it.
"""

import asyncio
import contextlib
import random
import signal
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field

import psutil

from jupyter_gq.client.environment.kernel import STARTUP_FILE

from .processes import Holder, find_holders, is_alive
from .world import World

#: Part of the command of each kernel of a job.
KERNEL = STARTUP_FILE.name
#: Statuses of answers that say that the service, the Hub or the disk is away.
EXPLAINED_STATUSES = frozenset({502, 503, 504, 507})


@dataclass(slots=True)
class Damage:
    """What the troubles have done."""

    #: How often each trouble struck, by its name.
    strikes: Counter[str] = field(default_factory=Counter)
    #: Jobs whose runner or supervisor was killed, and how often.
    lost_runs: Counter[str] = field(default_factory=Counter)
    #: Jobs and runs whose kernel was killed.
    lost_kernels: set[tuple[str, int]] = field(default_factory=set)


class Trouble(ABC):
    """One kind of trouble. `missing` says why this world cannot have it; "" if it can."""

    #: Whether it ends the process of the service, whose memory is judged in the second half.
    ends_service = False

    def __init__(self, world: World, damage: Damage) -> None:
        self.world, self.damage = world, damage

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def missing(self) -> str:
        return ""

    def draw_seconds(self, rng: random.Random, most: float) -> float:
        """Return for how long the trouble lasts: 1 s to `most` seconds, and less in a short run."""
        return rng.uniform(1, min(most, self.world.plan.seconds / 12))

    @abstractmethod
    async def strike(self, rng: random.Random) -> bool:
        """Make the trouble, wait, and end it; return False if there was nothing to strike."""


class KillService(Trouble):
    """`kill -9` of the service, which is started again by the process above it."""

    ends_service = True

    async def strike(self, rng):
        return await _in_thread(_kill, self.world.service)


class StopService(Trouble):
    """The service hangs for some seconds (SIGSTOP), and goes on."""

    async def strike(self, rng):
        return await pause(await asyncio.to_thread(self.world.service), self.draw_seconds(rng, 15))


class KillHub(Trouble):
    """`kill -9` of the Hub, which ends the service and the proxy; somebody starts the Hub again."""

    ends_service = True

    async def strike(self, rng):
        await asyncio.to_thread(self.world.hub.kill)
        await asyncio.sleep(self.draw_seconds(rng, 5))
        await asyncio.to_thread(self.world.hub.start)
        return True


class StopHub(Trouble):
    """The Hub hangs for some seconds."""

    async def strike(self, rng):
        return await pause(psutil.Process(self.world.hub.pid), self.draw_seconds(rng, 8))


class KillProxy(Trouble):
    """`kill -9` of the proxy, which the Hub starts again."""

    async def strike(self, rng):
        return await _in_thread(_kill, self.world.proxy)


class StopProxy(Trouble):
    """The proxy, through which every request of a user goes, hangs for some seconds."""

    async def strike(self, rng):
        return await pause(await asyncio.to_thread(self.world.proxy), self.draw_seconds(rng, 12))


class KillServer(Trouble):
    """`kill -9` of a user's notebook server."""

    async def strike(self, rng):
        servers = [each for each in await self._holders() if each.run == 0]
        return bool(servers) and _kill(lambda: rng.choice(servers).process)

    async def _holders(self) -> list[Holder]:
        return await asyncio.to_thread(find_holders, self.world.folder)


class _OfRuns(KillServer):
    """A trouble for one process of one job."""

    #: Word in the command of the process.
    word = ""

    async def _victim(self, rng) -> Holder | None:
        found = [each for each in await self._holders() if each.run and self.word in each.command]
        return rng.choice(found) if found else None


class KillRunner(_OfRuns):
    """`kill -9` of the runner of a job, or of the supervisor above it, which has the same command."""

    word = "jupyter_gq.runner"

    async def strike(self, rng):
        victim = await self._victim(rng)
        if victim is None or not _kill(lambda: victim.process):
            return False
        self.damage.lost_runs[victim.workload] += 1
        return True


class KillKernel(_OfRuns):
    """`kill -9` of the kernel of a job: the end of a program, which the runner tells."""

    word = KERNEL

    async def strike(self, rng):
        victim = await self._victim(rng)
        if victim is None or not _kill(lambda: victim.process):
            return False
        self.damage.lost_kernels.add((victim.workload, victim.run))
        return True


class StopRunner(_OfRuns):
    """The runner of a job hangs for some seconds."""

    word = "jupyter_gq.runner"

    async def strike(self, rng):
        victim = await self._victim(rng)
        return victim is not None and await pause(victim.process, self.draw_seconds(rng, 20))


class StopKernel(_OfRuns):
    """The kernel of a job hangs for some seconds."""

    word = KERNEL

    async def strike(self, rng):
        victim = await self._victim(rng)
        return victim is not None and await pause(victim.process, self.draw_seconds(rng, 20))


class FullDisk(Trouble):
    """The disk with the database and the jobs has no room left for some seconds; PostgreSQL is started if it ended."""

    @property
    def missing(self):
        return self.world.disk.missing

    async def strike(self, rng):
        disk = self.world.disk.full()
        await asyncio.to_thread(disk.__enter__)
        try:
            await asyncio.sleep(self.draw_seconds(rng, 12))
        finally:
            await asyncio.to_thread(disk.__exit__, None, None, None)
            await asyncio.to_thread(self._start_server_again)
        return True

    def _start_server_again(self) -> None:
        if self.world.postgres is not None:
            self.world.postgres.start_again()


class SlowDisk(Trouble):
    """Writes to the disk of database and jobs stall for 0.2 s to 1.5 s (`fsfreeze`), again and again."""

    @property
    def missing(self):
        return self.world.disk.missing

    async def strike(self, rng):
        return await asyncio.to_thread(self._stall, [rng.uniform(0.2, 1.5) for _ in range(rng.randint(3, 8))])

    def _stall(self, pauses: list[float]) -> bool:
        for pause in pauses:
            with self.world.disk.stalled():
                time.sleep(pause)
            time.sleep(0.2)
        return True


class DatabaseAway(Trouble):
    """PostgreSQL crashes and comes back; SQLite's file is locked by another program."""

    async def strike(self, rng):
        seconds = self.draw_seconds(rng, 12)
        if self.world.postgres is None:
            return await asyncio.to_thread(self._lock, seconds)
        await asyncio.to_thread(self.world.postgres.stop)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.world.postgres.start)
        return True

    def _lock(self, seconds: float) -> bool:
        file = self.world.disk.folder / "service.sqlite"
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(file)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            other.rollback()
            return True
        return False


class FreezeDatabase(Trouble):
    """PostgreSQL says nothing for some seconds, as on a machine that hangs."""

    @property
    def missing(self):
        return "" if self.world.postgres is not None else "the database is SQLite"

    async def strike(self, rng):
        with self.world.postgres.frozen():
            await asyncio.sleep(self.draw_seconds(rng, 12))
        return True


ALL: tuple[type[Trouble], ...] = (
    KillService,
    StopService,
    KillHub,
    StopHub,
    KillProxy,
    StopProxy,
    KillServer,
    KillRunner,
    KillKernel,
    StopRunner,
    StopKernel,
    FullDisk,
    SlowDisk,
    DatabaseAway,
    FreezeDatabase,
)


class Troublemaker:
    """Strikes with the troubles that this world can have, one at a time, each once before any strikes again."""

    def __init__(self, world: World, damage: Damage, kinds: tuple[type[Trouble], ...] = ALL) -> None:
        plan = world.plan
        chosen = [kind(world, damage) for kind in kinds if not plan.troubles or kind.__name__ in plan.troubles]
        self.possible = [each for each in chosen if not each.missing]
        #: Why each other trouble is left out.
        self.left_out = {each.name: each.missing for each in chosen if each.missing}
        self._world, self._damage, self._random = world, damage, plan.random("troubles")
        self._deck: list[Trouble] = []

    async def make_trouble(self) -> None:
        """Strike again and again until the time of the plan is over and `least_troubles` have struck."""
        plan, loop = self._world.plan, asyncio.get_running_loop()
        began = loop.time()
        while True:
            pause = self._random.expovariate(1 / plan.trouble_every)
            if loop.time() - began + pause > plan.seconds and self._damage.strikes.total() >= plan.least_troubles:
                return
            await asyncio.sleep(pause)
            async with self._world.calm:
                await self._strike(may_end_service=loop.time() - began < plan.calm_from)

    async def _strike(self, *, may_end_service: bool) -> None:
        """Strike with the first trouble of the deck that finds something to strike; without one, deal again."""
        for trouble in list(self._deck):
            if (may_end_service or not trouble.ends_service) and await trouble.strike(self._random):
                self._deck.remove(trouble)
                self._damage.strikes[trouble.name] += 1
                return
        self._deck = self._random.sample(self.possible, len(self.possible))


def _kill(find) -> bool:
    """Kill the process that `find` returns; return False if there is none."""
    process = find()
    with contextlib.suppress(psutil.NoSuchProcess):
        if process is not None:
            process.kill()
            return True
    return False


async def _in_thread(act, *arguments) -> bool:
    return await asyncio.to_thread(act, *arguments)


async def pause(process: psutil.Process | None, seconds: float) -> bool:
    """Stop a process for so many seconds; return False if it is gone."""
    if process is None or not is_alive(process):
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            process.send_signal(signal.SIGCONT)
        return True
    return False

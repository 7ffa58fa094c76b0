"""What goes wrong on the cluster of a soak run; see `tests/soak/troubles.py`."""

import asyncio
import contextlib
import signal

import psutil

from tests.kubernetes.pod_runtime import Container
from tests.soak.processes import read_command
from tests.soak.troubles import KERNEL, FullDisk, SlowDisk, Trouble, pause

from .world import ClusterWorld, run_of


class _OnCluster(Trouble):
    """A trouble that this world can always have."""

    world: ClusterWorld

    def _note_lost(self, container: Container) -> None:
        self.damage.lost_runs[run_of(container)[0]] += 1


class KillLeader(_OnCluster):
    """`kill -9` of the replica that leads."""

    ends_service = True

    async def strike(self, rng):
        leader = await asyncio.to_thread(self.world.leader)
        if leader is not None:
            leader.signal(signal.SIGKILL)
        return leader is not None


class KillReplica(_OnCluster):
    """`kill -9` of any replica."""

    ends_service = True

    async def strike(self, rng):
        replicas = self.world.replicas()
        if replicas:
            rng.choice(replicas).signal(signal.SIGKILL)
        return bool(replicas)


class StopReplica(_OnCluster):
    """Any replica hangs, also the one that only waits to lead, and goes on."""

    async def strike(self, rng):
        replicas = self.world.replicas()
        if not replicas:
            return False
        return await pause(psutil.Process(rng.choice(replicas).process.pid), self.draw_seconds(rng, 30))


class StopLeader(_OnCluster):
    """The replica that leads hangs, also for longer than its lease lasts, and goes on."""

    async def strike(self, rng):
        return await pause(await asyncio.to_thread(self.world.service), self.draw_seconds(rng, 30))


class APIServerAway(_OnCluster):
    """The API server ends, and begins anew after some seconds."""

    async def strike(self, rng):
        await asyncio.to_thread(self.world.plane.stop_api)
        await asyncio.sleep(self.draw_seconds(rng, 10))
        await asyncio.to_thread(self.world.plane.start_api)
        await asyncio.to_thread(self.world.plane.restart_followers)
        return True


class KillKubelet(_OnCluster):
    """The kubelet of a node is killed; the next one adopts the processes."""

    async def strike(self, rng):
        await asyncio.to_thread(rng.choice(self.world.nodes).restart)
        return True


class HangKubelet(_OnCluster):
    """Nothing is heard of a node for some seconds, and its processes run on."""

    async def strike(self, rng):
        node = rng.choice(self.world.nodes)
        node.hang()
        try:
            await asyncio.sleep(self.draw_seconds(rng, 20))
        finally:
            node.go_on()
        return True


class LoseNode(_OnCluster):
    """A node loses its power with all its processes, and is switched on again."""

    ends_service = True

    async def strike(self, rng):
        node = rng.choice(self.world.nodes)
        for container in self.world.runs():
            if node.runtime.containers.get(container.uid) is container:
                self._note_lost(container)
        await asyncio.to_thread(node.power_off)
        await asyncio.sleep(self.draw_seconds(rng, 20))
        await asyncio.to_thread(node.restart)
        return True


class KillRunner(_OnCluster):
    """`kill -9` of the first process of a job's pod."""

    async def strike(self, rng):
        runs = self.world.runs()
        if runs:
            victim = rng.choice(runs)
            victim.signal(signal.SIGKILL)
            self._note_lost(victim)
        return bool(runs)


class _OfKernels(_OnCluster):
    """A trouble for the kernel of a job."""

    async def _victim(self, rng) -> tuple[Container, psutil.Process] | None:
        found = await asyncio.to_thread(self._find_kernels)
        return rng.choice(found) if found else None

    def _find_kernels(self) -> list[tuple[Container, psutil.Process]]:
        found = []
        for container in self.world.runs():
            for pid in container.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(pid)
                    if KERNEL in read_command(process):
                        found.append((container, process))
        return found


class KillKernel(_OfKernels):
    """`kill -9` of the kernel of a job: the end of a program, which the runner tells."""

    async def strike(self, rng):
        victim = await self._victim(rng)
        if victim is None:
            return False
        container, kernel = victim
        with contextlib.suppress(psutil.NoSuchProcess):
            kernel.kill()
        self.damage.lost_kernels.add(run_of(container))
        return True


class StopKernel(_OfKernels):
    """The kernel of a job hangs for some seconds."""

    async def strike(self, rng):
        victim = await self._victim(rng)
        return victim is not None and await pause(victim[1], self.draw_seconds(rng, 20))


class StopRunner(_OnCluster):
    """The first process of a job's pod hangs for some seconds."""

    async def strike(self, rng):
        runs = self.world.runs()
        return bool(runs) and await pause(psutil.Process(rng.choice(runs).process.pid), self.draw_seconds(rng, 20))


class DatabaseAway(_OnCluster):
    """PostgreSQL crashes and comes back."""

    async def strike(self, rng):
        await asyncio.to_thread(self.world.installed.server.stop)
        await asyncio.sleep(self.draw_seconds(rng, 12))
        await asyncio.to_thread(self.world.installed.server.start)
        return True


class FreezeDatabase(_OnCluster):
    """PostgreSQL says nothing for some seconds, as on a machine that hangs."""

    async def strike(self, rng):
        with self.world.installed.server.frozen():
            await asyncio.sleep(self.draw_seconds(rng, 12))
        return True


class FullDatabaseDisk(FullDisk):
    """The disk of PostgreSQL has no room left for some seconds; a server that ended for that is started again."""

    world: ClusterWorld

    def _start_server_again(self) -> None:
        self.world.installed.server.start_again()


class SlowDatabaseDisk(SlowDisk):
    """Writes to the disk of PostgreSQL stall for 0.2 s to 1.5 s (`fsfreeze`), again and again."""


ALL: tuple[type[Trouble], ...] = (
    KillLeader,
    KillReplica,
    StopLeader,
    StopReplica,
    APIServerAway,
    KillKubelet,
    HangKubelet,
    LoseNode,
    KillRunner,
    KillKernel,
    StopRunner,
    StopKernel,
    FullDatabaseDisk,
    SlowDatabaseDisk,
    DatabaseAway,
    FreezeDatabase,
)

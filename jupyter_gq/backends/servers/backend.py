"""Notebook servers as workloads. The Hub starts them; here they are watched, and ended through the Hub.

Rules
-----
1. A share is held until the server's process and everything it started are gone, whatever the Hub believes.
2. Nothing is remembered on disk: after a restart of the service the controller launches each live notebook again,
   with the process that it has recorded.
3. A process is believed to be the server only if its start time and the user in its environment agree.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.processes import Lookout, Process, ProcessTable, environment_of, read_process, user_of
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import BackendError, Conflict
from jupyter_gq.domain.workload import Kind, Workload

log = logging.getLogger(__name__)

#: Every process of a server has its ticket in its environment.
_MARK = "JUPYTER_GQ_TICKET"
#: Two readings of a start time differ by rounding, and by a correction of the clock.
_START_TOLERANCE = 2.0
#: Seconds until the Hub is asked again, if it did not hear.
_ASK_AGAIN = 5.0
#: Seconds that what a dead server left behind has to end before it is killed.
_LINGER = 10.0


@dataclass(kw_only=True, slots=True)
class _Server:
    workload: Workload
    launched_at: float
    process: Process | None = None
    uid: int | None = None
    #: Somebody asked for its end; what is left then is killed.
    kill_at: float | None = None
    asking: "asyncio.Task[None] | None" = None
    #: The Hub heard.
    asked: bool = False
    ask_again_at: float = 0.0
    #: The server is dead, what it started is not: since when.
    orphaned_at: float | None = None
    killed: bool = False
    ended: Observation | None = None
    #: Only to name it in the log.
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = f"workload={self.workload.id} run={self.workload.run}"


class ServerRuns:
    """Watches notebook servers; see `backends.protocol.Backend` for the guarantees."""

    kinds = frozenset({Kind.NOTEBOOK})

    def __init__(self, *, stopper: ServerStopper, now: Callable[[], float], attach_timeout: float = 180.0) -> None:
        """`now` tells the time in seconds since the epoch."""
        self._stopper = stopper
        self._now = now
        self._attach_timeout = attach_timeout
        self._lookout = Lookout(now)
        self._observer = RunObserver()
        self._servers: dict[tuple[str, int], _Server] = {}
        self.capabilities = Capabilities(forgetful=True, process_attachment=self)

    def nodes(self) -> tuple[Node, ...]:
        """None of its own: servers run on the nodes of the other backends."""
        return ()

    async def launch(self, launch: Launch) -> None:
        """Expect a server that the Hub may start from now on; take its process from the record, if known."""
        workload = launch.workload
        key = (workload.id, workload.run)
        if key in self._servers:
            return
        server = _Server(workload=workload, launched_at=self._now())
        pid = launch.detail.pid
        if pid is not None:
            process = _verified(pid, launch.detail.pid_started)
            # Believed as little as in `attach`: what is believed here may be killed later.
            ours = process is not None and _may_be_of(pid, workload.owner)
            self._know(server, process if process is not None and ours else _gone(pid))
        self._servers[key] = server

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        """Let this process hold the share; raise `Conflict` if it cannot, or if another process holds the share."""
        server = self._servers.get((workload, run))
        if server is None or server.ended is not None:
            raise Conflict(f"{workload} holds no share now, so no process can be attached to it.")
        process = _verified(pid, started)
        if process is None:
            raise Conflict(f"There is no process {pid} that was started at {started:.1f}.")
        if not _may_be_of(pid, server.workload.owner):
            raise Conflict(f"The process {pid} is not a notebook server of {server.workload.owner}.")
        known = server.process
        if known is not None and (known.pid, known.ticks) != (process.pid, process.ticks) and _still(known):
            raise Conflict(f"Another process holds the share of {workload}.")
        self._know(server, process)

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask the Hub to end it; `observe` ends what is left after `grace` seconds. Asking again never adds time."""
        server = self._servers.get((workload, run))
        if server is None or server.ended is not None:
            return
        deadline = self._now() + max(0.0, grace)
        server.kill_at = deadline if server.kill_at is None else min(server.kill_at, deadline)
        self._ask(server)

    async def observe(self) -> Sequence[Observation]:
        """Return all servers that were launched; ended servers until `forget`."""
        watched = [s.process for s in self._servers.values() if s.process is not None and s.ended is None]
        table = self._lookout.table((process.pid, process.ticks) for process in watched)
        return [server.ended or self._observe_alone(server, table) for server in self._servers.values()]

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run whose end is recorded: the run need not be reported again."""
        server = self._servers.pop((workload, run), None)
        self._observer.forget((workload, run))
        if server is not None and server.asking is not None:
            server.asking.cancel()

    def _know(self, server: _Server, process: Process) -> None:
        server.process = process
        server.uid = None if process.dead else user_of(process.pid)

    def _observe_alone(self, server: _Server, table: ProcessTable) -> Observation:
        key = (server.workload.id, server.workload.run)
        return self._observer.observe(key, Instant(server.launched_at), lambda: self._observe(server, table))

    def _observe(self, server: _Server, table: ProcessTable) -> Observation:
        if server.kill_at is not None:
            self._ask(server)
        if server.process is None:
            return self._observe_awaited(server)
        left = self._processes(server, table)
        if not left:
            return self._end(server, Outcome.KILLED if server.killed else Outcome.SUCCEEDED)
        self._end_what_is_due(server, left, table)
        since = Instant(server.process.started)
        return _observation(server, phase=Phase.RUNNING, since=since, pids=tuple(sorted(left)))

    def _observe_awaited(self, server: _Server) -> Observation:
        if server.kill_at is not None and (server.asked or self._now() >= server.kill_at):
            return self._end(server, Outcome.SUCCEEDED)
        if self._now() - server.launched_at >= self._attach_timeout:
            sentence = (
                f"The server was not started within {self._attach_timeout:.0f} seconds, so its share is free again."
            )
            return self._end(server, Outcome.LOST, sentence)
        return _observation(server, phase=Phase.STARTING, since=Instant(server.launched_at))

    def _end(self, server: _Server, outcome: Outcome, sentence: str = "") -> Observation:
        if outcome is Outcome.KILLED:
            sentence = "The server was told to end and did not do so in its time, so it was killed."
        ended = _observation(server, phase=Phase.ENDED, since=Instant(self._now()), outcome=outcome, sentence=sentence)
        server.ended = ended
        log.info("server ended: %s outcome=%s", server.label, outcome)
        return ended

    def _processes(self, server: _Server, table: ProcessTable) -> set[int]:
        assert server.process is not None
        if table.alive(server.process.pid, server.process.ticks):
            server.orphaned_at = None
            return table.tree(server.process.pid)
        # Kernels have sessions of their own and outlive a server that was killed.
        return table.marked(_MARK, server.workload.id, server.uid)

    def _end_what_is_due(self, server: _Server, left: set[int], table: ProcessTable) -> None:
        now = self._now()
        if server.kill_at is not None and now >= server.kill_at:
            server.killed = True
            table.signal(left | table.marked(_MARK, server.workload.id, server.uid), signal.SIGKILL)
            return
        assert server.process is not None
        if table.alive(server.process.pid, server.process.ticks):
            return
        if server.orphaned_at is None:
            server.orphaned_at = now
            table.signal(left, signal.SIGTERM)
        elif now - server.orphaned_at >= _LINGER:
            table.signal(left, signal.SIGKILL)

    def _ask(self, server: _Server) -> None:
        if server.asked or server.asking is not None or self._now() < server.ask_again_at:
            return
        server.asking = asyncio.create_task(self._ask_hub(server))

    async def _ask_hub(self, server: _Server) -> None:
        try:
            await self._stopper.stop(server.workload.owner, server.workload.name)
            server.asked = True
        except BackendError as error:
            server.ask_again_at = self._now() + _ASK_AGAIN
            log.warning("server could not be stopped yet: %s: %s", server.label, error)
        finally:
            server.asking = None


def _verified(pid: int, started: float) -> Process | None:
    process = read_process(pid)
    if process is None or process.dead or abs(process.started - started) > _START_TOLERANCE:
        return None
    return process


def _may_be_of(pid: int, user: str) -> bool:
    """Return whether the Hub may have started the process for this user, as far as its environment can be read."""
    environment = environment_of(pid)
    return environment is None or environment.get("JUPYTERHUB_USER") == user


def _gone(pid: int) -> Process:
    return Process(pid=pid, ticks=-1, parent=0, session=0, dead=True)


def _still(process: Process) -> bool:
    found = read_process(process.pid)
    return found is not None and found.ticks == process.ticks and not found.dead


def _observation(
    server: _Server,
    *,
    phase: Phase,
    since: Instant,
    outcome: Outcome | None = None,
    sentence: str = "",
    pids: tuple[int, ...] = (),
) -> Observation:
    return Observation(
        workload=server.workload.id,
        run=server.workload.run,
        phase=phase,
        since=since,
        outcome=outcome,
        sentence=sentence,
        pids=pids,
    )

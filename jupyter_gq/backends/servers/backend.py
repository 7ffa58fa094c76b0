"""The backend for notebook servers. The Hub starts the servers; the backend observes them and stops them by the Hub.

Rules
-----
- Processes decide: a share is held until the server's process and all that it started have ended, even if the Hub
  reports the end earlier.
- No memory on disk: after a restart of the service the controller launches each live notebook again, with the process
  that it has recorded.
- Unreported processes: a Hub that is killed in the very moment in which it starts a server never reports the process.
  Such a process is known by its ticket, and is ended with the ticket before the share is free again.
- Checked processes: a process counts as the server only if its start time agrees and the kernel shows whose it is; see
  `server_process`.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.control_groups import ParentGroup, pids_of
from jupyter_gq.backends.enforcers import NO_ENFORCERS, Enforcers
from jupyter_gq.backends.machine_clock import MachineClock
from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.processes import ProcessTable, ProcessTableCache, user_of
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.backends.server_stopper import ServerStopper
from jupyter_gq.devices.linux.processes import Process, ProcessId, read_process
from jupyter_gq.devices.linux.signals import send_signal
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.domain.amount import ONE_GPU, Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import BackendError, Conflict
from jupyter_gq.domain.workload import Kind, Workload

from .server_groups import enter_group, find_left_groups, find_server_group
from .server_process import find_hub_processes, find_process, is_beginning, may_belong_to

log = logging.getLogger(__name__)

#: Variable with the ticket in the environment of every process of a server.
_MARK = "JUPYTER_GQ_TICKET"
#: Seconds until the Hub is asked again after a failed request to stop a server.
_RETRY_INTERVAL = 5.0
#: Seconds for which processes that a dead server left behind may run on before they are killed.
_ORPHAN_GRACE = 10.0


@dataclass(kw_only=True, slots=True)
class _Server:
    """A notebook server that was launched and is not forgotten yet."""

    workload: Workload
    #: Time of the launch in seconds since the epoch. All other times of this class are in seconds awake.
    launched_at: float
    #: The same moment; from then on the process is expected.
    expected_since: float
    #: Process of the server; None until it is attached.
    process: Process | None = None
    #: User of that process.
    uid: int | None = None
    #: Folder of the control group of its own; "" = it has none.
    group: str = ""
    #: When the processes that are left are killed; None if the server was not told to stop.
    kill_by: float | None = None
    #: The request to the Hub that is under way.
    asking: "asyncio.Task[None] | None" = None
    #: Whether the Hub has accepted the request to stop the server.
    asked: bool = False
    #: Earliest time of the next request to the Hub.
    ask_again_at: float = 0.0
    #: Since when the server is dead while processes that it started are alive.
    orphaned_at: float | None = None
    #: Whether its processes were killed after `kill_by`.
    killed: bool = False
    #: Last observation, once the server has ended.
    ended: Observation | None = None
    #: Name of the server in the log.
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = f"workload={self.workload.id} run={self.workload.run}"


class ServerRuns:
    """The backend for notebook servers; see `backends.protocol.Backend` for the guarantees."""

    kinds = frozenset({Kind.NOTEBOOK})

    def __init__(
        self,
        *,
        stopper: ServerStopper,
        clock: MachineClock,
        attach_timeout: float = 180.0,
        hub_processes: Callable[[], Collection[int]] = find_hub_processes,
        shares: RunShares | None = None,
        enforcers: Enforcers = NO_ENFORCERS,
    ) -> None:
        """Create a backend without servers.

        A server that is not attached within `attach_timeout` seconds after its launch counts as lost. `hub_processes`
        returns the ids of the processes that may be the Hub. `shares` suspends idle shares; None = they cannot be
        suspended. `enforcers` limit shares beside the watchdog; without limits of the driver, servers stay in the
        control group of the Hub.
        """
        self._limits = enforcers.limits
        if enforcers.limits is not None:
            enforcers.limits.remove(find_left_groups(enforcers.limits.parent))
        self._stopper = stopper
        self._now, self._awake = clock.now, clock.awake
        self._attach_timeout = attach_timeout
        self._hub_processes = hub_processes
        self._shares = shares
        self._tables = ProcessTableCache(clock.awake)
        self._observer = RunObserver()
        self._servers: dict[tuple[str, int], _Server] = {}
        self.capabilities = Capabilities(
            forgetful=True,
            process_attachment=self,
            process_signals=self,
            suspension=shares,
            memory_limits=enforcers.limits,
            partitioning=enforcers.mps,
        )

    def nodes(self) -> tuple[Node, ...]:
        """Return no nodes: servers run on the nodes of the other backends."""
        return ()

    async def launch(self, launch: Launch) -> None:
        """Expect that the Hub starts this server from now on; do nothing if the run is known already.

        A process in the record is taken as the server's. If it has ended or is another user's, the server counts as
        dead.
        """
        workload = launch.workload
        key = (workload.id, workload.run)
        if key in self._servers:
            return
        server = _Server(workload=workload, launched_at=self._now(), expected_since=self._awake())
        pid = launch.detail.pid
        if pid is not None:
            process = find_process(pid, launch.detail.pid_started)
            # The parent was checked when the process was reported; a Hub that was restarted is not the parent any more.
            accepted = process is not None and may_belong_to(process, workload.owner)
            self._set_process(server, process if process is not None and accepted else _dead_process(pid))
            self._know_group(server, find_server_group)
        self._servers[key] = server
        if self._shares is not None:
            self._shares.add(workload, partial(_find_processes, server))

    def check_process(self, owner: str, pid: int, started: float) -> None:
        """Raise `Conflict` unless the process runs, and is one that the Hub has started as a server of its owner.

        Raise `BackendError` if that cannot be known yet.
        """
        self._require_server_process(owner, pid, started)

    def attach(self, workload: str, run: int, pid: int, started: float) -> None:
        """Record the process of a launched server, identified by its id and its start time in seconds since the epoch.

        Raise `Conflict` if the run holds no share, if its owner has no such process, or if another living one holds the
        share; `BackendError` if it cannot be known yet whose process it is.
        """
        server = self._servers.get((workload, run))
        if server is None or server.ended is not None:
            raise Conflict(f"{workload} holds no share now, so no process can be attached to it.")
        process = self._require_server_process(server.workload.owner, pid, started)
        known = server.process
        if known is not None and (known.pid, known.ticks) != (process.pid, process.ticks) and _is_alive(known):
            raise Conflict(f"Another process holds the share of {workload}.")
        self._set_process(server, process)
        if known is None or known.id != process.id:
            self._know_group(server, enter_group)

    def signal_process(self, workload: str, run: int, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to a process that the server has started, if it runs; return whether it was sent.

        The server itself is never signalled: its end would be the end of all of its kernels.
        """
        server = self._servers.get((workload, run))
        if server is None or server.process is None or process == server.process.id:
            return False
        return process in _find_processes(server) and send_signal(process.pid, process.ticks, number)

    def _require_server_process(self, owner: str, pid: int, started: float) -> Process:
        """Return the process of a server that its owner reports.

        Raise `Conflict` if the process cannot be the owner's, and `BackendError` if that cannot be known yet, because
        the Hub has started it just now.
        """
        process, hub = find_process(pid, started), self._hub_processes()
        if process is None:
            raise Conflict(f"There is no process {pid} that was started at {started:.1f}.")
        if not may_belong_to(process, owner, hub):
            if process.parent in hub and is_beginning(process, self._now()):
                raise BackendError(f"The program of process {pid} has not begun yet. Try again in a moment.")
            raise Conflict(f"The process {pid} is not a notebook server of {owner}.")
        return process

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask the Hub to stop a server; `observe` kills what is left of it after `grace` seconds.

        A later call never adds time. Nothing happens if the run is unknown or has ended.
        """
        server = self._servers.get((workload, run))
        if server is None or server.ended is not None:
            return
        deadline = self._awake() + max(0.0, grace)
        server.kill_by = deadline if server.kill_by is None else min(server.kill_by, deadline)
        self._request_stop(server)

    async def observe(self) -> Sequence[Observation]:
        """Return the state of every launched server, until `forget` also of ended ones; stop or kill what is due."""
        if self._shares is not None:
            self._shares.recover()
        watched = [s.process for s in self._servers.values() if s.process is not None and s.ended is None]
        table = self._tables.read((process.pid, process.ticks) for process in watched)
        return [server.ended or self._observe_alone(server, table) for server in self._servers.values()]

    async def forget(self, workload: str, run: int) -> None:
        """Drop a run, so that `observe` no longer returns it, and cancel its request to the Hub.

        The caller must have recorded its end. Nothing happens if the run is unknown.
        """
        server = self._servers.pop((workload, run), None)
        self._observer.forget((workload, run))
        if self._shares is not None:
            self._shares.remove(workload, run)
        if server is not None and server.asking is not None:
            server.asking.cancel()

    def _set_process(self, server: _Server, process: Process) -> None:
        """Record this process as the server's, and the user that it runs as; None if the process is dead."""
        server.process = process
        server.uid = None if process.dead else user_of(process.pid)

    def _know_group(self, server: _Server, find: Callable[[ParentGroup | None, str, int], tuple[str, str]]) -> None:
        """Let the driver's limits know the control group of a server with a part of a device, which `find` returns."""
        workload, process = server.workload, server.process
        is_part = workload.request.devices > 0 and workload.request.milli_per_device < ONE_GPU
        if self._limits is None or process is None or process.dead or not is_part:
            return
        server.group, why = find(self._limits.parent, f"{workload.id}-{workload.run}", process.pid)
        self._limits.enter((workload.id, workload.run), server.group, why)

    def _observe_alone(self, server: _Server, table: ProcessTable) -> Observation:
        key = (server.workload.id, server.workload.run)
        return self._observer.observe(key, Instant(server.launched_at), lambda: self._observe(server, table))

    def _observe(self, server: _Server, table: ProcessTable) -> Observation:
        """Return the state of a server that has not ended; stop or kill processes that are due.

        Without a process left, the server ends: KILLED if it had to be killed, otherwise SUCCEEDED.
        """
        if server.kill_by is not None:
            self._request_stop(server)
        if server.process is None:
            return self._observe_awaited(server, table)
        left = self._processes(server, table)
        if not left:
            return self._end(server, Outcome.KILLED if server.killed else Outcome.SUCCEEDED)
        self._end_due_processes(server, left, table)
        since = Instant(server.process.started)
        seen = _observation(server, phase=Phase.RUNNING, since=since, pids=tuple(sorted(left)))
        if self._shares is None:
            return seen
        key = (server.workload.id, server.workload.run)
        return replace(seen, share=self._shares.state(*key), sentence=self._shares.describe_trouble(*key))

    def _observe_awaited(self, server: _Server, table: ProcessTable) -> Observation:
        """Return the state of a server without a process: ENDED after a stop or the timeout, otherwise STARTING.

        After a stop, the outcome is SUCCEEDED once the Hub has agreed or the grace is over. After the timeout it is
        LOST. Processes that nobody has reported are ended before.
        """
        is_stopped = server.kill_by is not None and (server.asked or self._awake() >= server.kill_by)
        is_late = self._awake() - server.expected_since >= self._attach_timeout
        left = _find_unreported(server.workload, table) if is_stopped or is_late else set()
        if left:
            self._end_orphans(server, left, table)
        if left or not (is_stopped or is_late):
            return _observation(server, phase=Phase.STARTING, since=Instant(server.launched_at))
        if is_stopped:
            return self._end(server, Outcome.SUCCEEDED)
        limit = f"within {self._attach_timeout:.0f} seconds"
        sentence = f"The server was not started {limit}, so its share is free again."
        if server.orphaned_at is not None:
            sentence = f"The server was started, but the Hub did not say so {limit}, so the server was ended."
        return self._end(server, Outcome.LOST, sentence)

    def _end(self, server: _Server, outcome: Outcome, sentence: str = "") -> Observation:
        """Record that a server has ended; return the observation, which is kept until `forget`."""
        if outcome is Outcome.KILLED:
            sentence = "The server was told to end, did not end in time, and was killed."
        ended = _observation(server, phase=Phase.ENDED, since=Instant(self._now()), outcome=outcome, sentence=sentence)
        server.ended = ended
        key = (server.workload.id, server.workload.run)
        if self._shares is not None:
            self._shares.remove(*key)
        if self._limits is not None:
            self._limits.leave(key, server.group)
        log.info("server ended: %s outcome=%s", server.label, outcome, extra=server.workload.log_fields)
        return ended

    def _processes(self, server: _Server, table: ProcessTable) -> set[int]:
        """Return the ids of the server and all that it started; once it is dead, of those that carry its ticket.

        Whatever is in the control group of the server belongs to it.
        """
        assert server.process is not None
        # A program that has left its parent is still in the group, and uses the share.
        grouped = pids_of(server.group)
        if table.alive(server.process.pid, server.process.ticks):
            server.orphaned_at = None
            return table.tree(server.process.pid) | grouped
        # Kernels have sessions of their own and survive a server that was killed.
        return table.find_marked(_MARK, server.workload.id, server.uid) | grouped

    def _end_due_processes(self, server: _Server, left: set[int], table: ProcessTable) -> None:
        """Kill the processes of a server that was told to stop once its grace is over.

        Processes that a dead server left behind get SIGTERM at once, and are killed 10 s later. Otherwise do nothing.
        """
        now = self._awake()
        if server.kill_by is not None and now >= server.kill_by:
            server.killed = True
            table.signal(left | table.find_marked(_MARK, server.workload.id, server.uid), signal.SIGKILL)
            return
        assert server.process is not None
        if not table.alive(server.process.pid, server.process.ticks):
            self._end_orphans(server, left, table)

    def _end_orphans(self, server: _Server, left: set[int], table: ProcessTable) -> None:
        """Send SIGTERM to these processes that no living server holds together, and kill them 10 s later."""
        now = self._awake()
        if server.orphaned_at is None:
            server.orphaned_at = now
            table.signal(left, signal.SIGTERM)
        elif now - server.orphaned_at >= _ORPHAN_GRACE:
            table.signal(left, signal.SIGKILL)

    def _request_stop(self, server: _Server) -> None:
        """Ask the Hub in the background to stop a server.

        Do nothing if a request is under way, was accepted, or failed less than 5 s ago. The Hub knows servers by name:
        if the server was started again under its name, the Hub would stop that one, and is not asked.
        """
        if server.asked or server.asking is not None or self._awake() < server.ask_again_at:
            return
        if self._was_started_again(server):
            return
        server.asking = asyncio.create_task(self._ask_hub(server))

    def _was_started_again(self, server: _Server) -> bool:
        """Return whether a later ticket of the same server is known that has not ended."""
        own = server.workload
        return any(
            other.ended is None
            and (other.workload.owner, other.workload.name) == (own.owner, own.name)
            and other.workload.submission > own.submission
            for other in self._servers.values()
        )

    async def _ask_hub(self, server: _Server) -> None:
        """Ask the Hub once to stop a server; log a failure and allow the next request after a pause."""
        try:
            await self._stopper.stop(server.workload.owner, server.workload.name)
            server.asked = True
        except BackendError as error:
            server.ask_again_at = self._awake() + _RETRY_INTERVAL
            log.warning(
                "server could not be stopped yet: %s: %s", server.label, error, extra=server.workload.log_fields
            )
        finally:
            server.asking = None


def _find_processes(server: _Server) -> tuple[ProcessId, ...]:
    """Return all processes that hold a server's share now, that of the server first; may be called in a thread."""
    process = server.process
    if process is None:
        return ()
    table = ProcessTable.read()
    pids = table.tree(process.pid) if table.alive(process.pid, process.ticks) else set()
    pids |= table.find_marked(_MARK, server.workload.id, server.uid) | pids_of(server.group)
    found = [each.id for pid in pids if (each := table.process(pid)) is not None]
    return tuple(sorted(found, key=lambda each: (each.pid != process.pid, each.pid)))


def _find_unreported(notebook: Workload, table: ProcessTable) -> set[int]:
    """Return the ids of the processes that carry the ticket of a notebook and may be of its owner."""
    found = map(table.process, table.find_marked(_MARK, notebook.id))
    return {process.pid for process in found if process is not None and may_belong_to(process, notebook.owner)}


def _dead_process(pid: int) -> Process:
    """Return a process that is dead, in place of a recorded process that cannot be accepted."""
    return Process(pid=pid, ticks=-1, parent=0, session=0, dead=True)


def _is_alive(process: Process) -> bool:
    """Return whether this process is still alive."""
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
    """Return an observation of the server's run with these fields."""
    return Observation(
        workload=server.workload.id,
        run=server.workload.run,
        phase=phase,
        since=since,
        outcome=outcome,
        sentence=sentence,
        pids=pids,
    )

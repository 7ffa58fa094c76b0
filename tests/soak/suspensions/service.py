"""The service of the soak: the product's shares of servers with its suspender, in a process that is killed.

The service reads its orders from a file and writes what it sees into another one, which also is its record of shares:
the next service begins with it, as the real one begins with its database.
"""

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.host_memory import SimulatedHostMemory
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.share_suspender import ShareSuspender
from jupyter_gq.devices.suspension.tree_steps import SuspensionLimits, Waiting
from jupyter_gq.domain.amount import MiB, Seconds
from jupyter_gq.domain.states import State
from tests.builders import a_notebook, running
from tests.fakes.driver import JournalOfAServiceThatDies
from tests.fakes.time_and_death import Fuse

from .machine import Machine

log = logging.getLogger(__name__)

#: Acts of a checkpointer that change a process.
_ACTS = frozenset({"lock", "checkpoint", "restore", "unlock"})
#: States of a workload by the phase of its share, as the record has them.
_STATES = {SharePhase.SUSPENDED: State.SUSPENDED, SharePhase.RESUMING: State.RESUMING}
_TICK = 0.005
_SETTLE = Seconds(0.3)


class Strike(Fuse):
    """A fuse that sends SIGKILL to a real process: to this service, or to a program."""

    #: Id of the process that is killed.
    victim = 0

    def burn(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            with suppress(ProcessLookupError):
                os.kill(self.victim, signal.SIGKILL)


class StruckCheckpointer:
    """A checkpointer at whose acts the fuse burns, before and after each."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._inner, name)
        return self._struck(call) if name in _ACTS else call

    def _struck(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any) -> Any:
            self._fuse.burn()
            answer = call(*arguments)
            self._fuse.burn()
            return answer

        return act


class Files:
    """The files between the soak and its services, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.orders, self.seen, self.journal = folder / "orders.json", folder / "seen.json", folder / "journal.json"
        #: What services saw and did, in order.
        self.log = folder / "service.log"

    @staticmethod
    def write(path: Path, content: Any) -> None:
        """Replace a file at once."""
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(content))
        temporary.replace(path)

    @staticmethod
    def read(path: Path) -> Any:
        """Return the content of a file; None if there is none."""
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            return None


class Service:
    """One life of the service."""

    #: What is killed, and the run number of its shares.
    role, run = "service", 1

    def __init__(self, machine: Machine, files: Files, most: int) -> None:
        """Prepare a service on this machine, where at most `most` MiB may be suspended at one time."""
        self._files, self._strike, self._struck = files, Strike(), -1
        logging.basicConfig(
            filename=files.log, level=logging.INFO, format="%(relativeCreated)d %(process)d %(message)s"
        )
        limits = SuspensionLimits(
            host_margin=MiB(0),
            device_margin=MiB(0),
            most_suspended=lambda: MiB(most),
            settle_timeout=_SETTLE,
            lock_timeout=_SETTLE,
        )
        suspender = ShareSuspender(
            checkpointer=StruckCheckpointer(machine.checkpointer, self._strike),
            probe=machine.probe,
            host=SimulatedHostMemory(),
            journal=JournalOfAServiceThatDies(files.journal, self._strike),
            waiting=Waiting(monotonic=time.monotonic, sleep=time.sleep, poll=Seconds(0.01)),  # noqa: TID251
            limits=limits,
        )
        now, awake = time.time, time.monotonic  # noqa: TID251
        self._shares = RunShares(suspender=suspender, now=now, awake=awake, on_change=lambda: None)
        self._devices, self._probe = machine.devices, machine.probe
        self._orders: Any = None
        self._known: set[str] = set()
        self._seen: Any = None
        #: The shares as the former service saw them last.
        self._record: dict[str, Any] = (files.read(files.seen) or {}).get("shares", {})

    async def live(self) -> None:
        """Follow the orders until the soak has ended."""
        parent = os.getppid()
        while os.getppid() == parent:
            self._read_orders()
            self._probe.devices()  # as the real service does at each observation, so that it finds a lost device again
            self.obey()
            self._write_seen()
            await asyncio.sleep(_TICK)

    def obey(self) -> None:
        """Begin what the orders want of each share."""
        self._shares.recover()
        for name, order in self._orders["shares"].items():
            self._follow(name, away=order["away"])

    def _read_orders(self) -> None:
        """Read the orders, and light the fuse of a new strike."""
        self._orders = self._files.read(self._files.orders)
        strike = self._orders["strike"]
        if strike is None:
            self._strike.left = None
        elif strike["id"] != self._struck:
            self._struck, self._strike.victim = strike["id"], strike["victim"] or os.getpid()
            self._strike.light(strike["places"])
        self.know_shares()

    def know_shares(self) -> None:
        """Know new shares, and forget those that have ended."""
        for name in self._known - set(self._orders["shares"]):
            self._shares.remove(name, self.run)
        for name in set(self._orders["shares"]) - self._known:
            self._shares.add(self._workload(name), lambda name=name: self._processes(name))
        self._known = set(self._orders["shares"])

    def _workload(self, name: str) -> Any:
        devices = self._devices_of(name)
        found = running(a_notebook("ann", str(len(devices)), id=name), *devices)
        state = _STATES.get(self._record.get(name, {}).get("phase"), State.RUNNING)
        return replace(found, state=state)

    def _devices_of(self, name: str) -> list[str]:
        """Return the devices of a share."""
        return [self._devices[index] for index in self._orders["shares"][name]["on"]]

    def _processes(self, name: str) -> list[ProcessId]:
        """Return the server's process, which uses no device, and the programs of the share as they are now."""
        order = self._files.read(self._files.orders)["shares"].get(name, {"processes": []})
        return [ProcessId(os.getpid(), 0), *(ProcessId(*each) for each in order["processes"])]

    def _follow(self, name: str, *, away: bool) -> None:
        state = self._shares.state(name, self.run)
        if state is None:
            return
        if away and state.phase is SharePhase.IN_USE:
            self._shares.suspend(name, 1)
        elif not away and state.phase in {SharePhase.SUSPENDED, SharePhase.SUSPENDING}:
            self._shares.resume(name, 1)

    def _write_seen(self) -> None:
        """Write the phase of each share, if any has changed; that of the record until the driver has been asked."""
        shares = {}
        for name in sorted(self._known):
            state = self._shares.state(name, self.run)
            if state is not None:
                shares[name] = {
                    "phase": state.phase.value,
                    "trouble": self._shares.describe_trouble(name, self.run),
                    # Why the last attempt failed, as after the death of a program in its middle.
                    "failure": state.failure,
                    "recovered": True,
                }
            elif name in self._record:
                shares[name] = {**self._record[name], "recovered": False}
        seen = {"serial": self._orders["serial"], "service": os.getpid(), "shares": shares}
        if seen != self._seen:
            self._seen = seen
            log.info("orders %s, seen %s", self._orders["shares"], shares)
            self._files.write(self._files.seen, seen)

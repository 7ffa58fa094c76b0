"""One run: wishes change, processes are killed, and the machine is judged whenever it has come to rest."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.suspension.journal import FileJournal
from jupyter_gq.devices.suspension.share_state import SharePhase
from tests.patience import Deadline

from .judge import Shown, judge
from .machine import CAPACITY, Machine, Program
from .service import Files, Service

#: MiB of the programs of each share, and the indexes of the devices on which each holds so much.
Holdings = dict[str, tuple[tuple[int, tuple[int, ...]], ...]]
_ON_ONE_DEVICE: Holdings = {
    "one": ((8000, (0,)),),
    "two": ((5000, (0,)), (5000, (0,))),
    "three": ((2000, (0,)), (2000, (0,)), (2000, (0,))),
    "other": ((4000, (1,)),),
}
#: A kernel on each of two devices, and a kernel that spans both beside one that does not.
_ON_TWO_DEVICES: Holdings = {"each": ((3000, (0,)), (6000, (1,))), "spanning": ((2500, (0, 1)), (1500, (1,)))}
#: The shares by what is killed. The share of a pod is suspended only if it is of one device.
SHARES = {"service": _ON_ONE_DEVICE | _ON_TWO_DEVICES, "agent": _ON_ONE_DEVICE}
#: Rounds after which everything comes to rest and is judged.
_CALM_EVERY = 8
_LOOK_EVERY = 0.002
#: Time after which the lent memory is taken back, as the service does before it resumes a share.
_LENT_FOR = 0.05
#: The most places of a strike; a suspension of all shares has about fifty.
_MOST_PLACES = 40
_LATEST = 0.08
#: The part of the rounds in which the service hangs, and the most seconds for that: longer than a step may take.
_HANGS, _HANGS_FOR = 0.3, 0.6
#: The part of the rounds in which a program is busy or a device is lost.
_TROUBLED = 0.3
#: Lines of the log of the services that are shown with a fault.
_LINES = 60


@dataclass
class Tally:
    """The figures of a run."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    #: Deaths of services by what their journal said then.
    moments: Counter[str] = field(default_factory=Counter)
    #: How often the service, or the agent, was stopped for a while.
    stops: int = 0
    lent: int = 0
    #: How often the work of a program did not end, or a device was lost.
    troubles: int = 0
    calms: int = 0
    faults: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the figures as lines."""
        lines = [
            f"SEED={self.seed}: {sum(self.kills.values())} kills ({_count(self.kills)})",
            f"they died while the journal said: {_count(self.moments)}",
            f"they hung {self.stops} times",
            f"memory of suspended shares was lent {self.lent} times; judged {self.calms} times",
            f"a program was busy, or a device lost, {self.troubles} times",
        ]
        return "\n".join([*lines, *(self.faults or ["No faults."])])


class Run:
    """A run on one machine, with files in one folder."""

    def __init__(self, machine: Machine, folder: Path, seed: int, life: type[Service] = Service) -> None:
        """Prepare a run in which `life` is killed: the service, or the agent of a node."""
        self._life = life
        self._machine, self._files, self._random = machine, Files(folder), random.Random(seed)
        self.tally = Tally(seed)
        self._number = 0
        self._shares = SHARES[life.role]
        self._programs = {name: [self._start(*each) for each in held] for name, held in self._shares.items()}
        # All other memory belongs to strangers: what is lent is missing when a share comes back.
        self._strangers = [
            self._start(CAPACITY - _sum_memory(self._programs.values(), index), (index,))
            for index in range(len(machine.devices))
        ]
        self._away: dict[str, bool] = dict.fromkeys(self._shares, False)
        #: Shares with a new program, which stay in use until the service has seen that.
        self._fresh: set[str] = set()
        self._borrowers: list[Program] = []
        self._serial, self._service = 0, 0

    def play(self, kills: int) -> Tally:
        """Kill so many processes, and return the figures; stops at the first judgement with a fault."""
        try:
            self._order()
            while sum(self.tally.kills.values()) < kills and not self.tally.faults:
                self._play_round()
                self._number += 1
                if self._number % _CALM_EVERY == 0:
                    self._come_to_rest()
            if not self.tally.faults:
                self._end_shares()
        finally:
            self._end_service()
            self._machine.close()
        return self.tally

    # --- a round

    def _play_round(self) -> None:
        """Change wishes, let a process be killed in the middle, and replace what was killed."""
        self._lend()
        if self._is_at_rest():
            self._fresh.clear()
        for name in self._random.sample(sorted(self._shares), self._random.randint(1, len(self._shares))):
            if name not in self._fresh:
                self._away[name] = not self._away[name]
        name = self._random.choice(sorted(self._shares)) if self._random.random() < 0.35 else ""
        victim = self._random.choice(self._programs[name]) if name else None
        by_place = self._random.random() < 0.7
        places = self._random.randrange(_MOST_PLACES)
        self._order(strike=(places, victim) if by_place else None)
        self._trouble()
        self._ensure_service()
        if self._random.random() < _HANGS:
            self._hang(victim)
        at = self._random.uniform(0, _LATEST)
        self._wait(lambda: self._is_hit(victim) or (not by_place and self._waited > at) or self._is_at_rest())
        if victim is not None:
            self.tally.kills["kernel"] += 1
            self._replace(name, victim)
            self._away[name] = False
            self._fresh.add(name)
        if victim is None or self._random.random() < 0.3:
            self._kill_service()
        self._take_back()
        self._order()

    def _hang(self, victim: Program | None) -> None:
        """Stop the service at some moment (SIGSTOP), let the victim die meanwhile, and let the service go on."""
        moment, lasts = self._random.uniform(0, _LATEST), self._random.uniform(0, _HANGS_FOR)
        self._wait(lambda: self._waited > moment or self._is_at_rest() or not self._is_serving())
        if not self._is_serving():
            return
        os.kill(self._service, signal.SIGSTOP)
        self.tally.stops += 1
        try:
            if victim is not None:
                with suppress(ProcessLookupError):
                    os.kill(victim.id.pid, signal.SIGKILL)
            self._wait(lambda: self._waited > lasts)
        finally:
            os.kill(self._service, signal.SIGCONT)

    def _is_hit(self, victim: Program | None) -> bool:
        """Tell whether the victim of this round is dead, or the service if there is none."""
        return not self._is_serving() if victim is None else self._machine.state_of(victim) is None

    def _replace(self, name: str, victim: Program) -> None:
        """Kill a program for good and start another one in its share, as the restart of a kernel does."""
        self._take_back()
        self._machine.kill(victim)
        self._programs[name].remove(victim)
        self._programs[name].append(self._start(victim.mib, victim.on))

    def _lend(self) -> None:
        """Sometimes let a program outside of all shares take what suspended shares have given up."""
        away = [self._programs[name] for name in self._shares if self._is_suspended(name)]
        if away and self._random.random() < 0.5:
            self.tally.lent += 1
            lent = [_sum_memory(away, index) for index in range(len(self._machine.devices))]
            self._borrowers = [self._start(mib, (index,)) for index, mib in enumerate(lent) if mib]

    def _is_suspended(self, name: str) -> bool:
        """Tell whether a share was told to be away, was seen so, and is so by the driver."""
        states = {self._machine.state_of(program) for program in self._programs[name]}
        is_seen = self._phase_of(name) is SharePhase.SUSPENDED
        return self._away[name] and is_seen and states == {CheckpointState.CHECKPOINTED}

    def _trouble(self) -> None:
        """Sometimes let a program be busy, or a device be lost, while all others are well."""
        if self._random.random() < _TROUBLED:
            self.tally.troubles += 1
            program = self._random.choice(self._programs[self._random.choice(sorted(self._shares))])
            busy, index = self._random.random() < 0.5, self._random.randrange(len(self._machine.devices))
            self._machine.trouble(program, index, busy=busy)

    def _take_back(self) -> None:
        """End the loan and the troubles of a round."""
        self._machine.mend()
        while self._borrowers:
            self._machine.kill(self._borrowers.pop())

    def _start(self, mib: int, on: tuple[int, ...]) -> Program:
        return self._machine.start_program(mib, self._random.randrange(1, 2**31), on)

    # --- the service

    def _order(self, strike: tuple[int, Program | None] | None = None) -> None:
        """Write the wishes for the service, with the place of a strike and its victim (None = the service)."""
        self._serial += 1
        told: Any = None
        if strike is not None:
            places, victim = strike
            told = {"id": self._serial, "places": places, "victim": victim.id.pid if victim is not None else 0}
        shares = {
            name: {
                "away": self._away[name],
                "processes": [(each.id.pid, each.id.ticks) for each in programs],
                "on": sorted({index for _, on in self._shares[name] for index in on}),
            }
            for name, programs in self._programs.items()
        }
        self._files.write(self._files.orders, {"serial": self._serial, "strike": told, "shares": shares})

    def _ensure_service(self) -> None:
        """Start a service if none lives."""
        if self._is_serving():
            return
        self._service = os.fork()
        if self._service == 0:
            try:
                asyncio.run(self._life(self._machine, self._files, self._total()).live())
            finally:
                os._exit(1)

    def _is_serving(self) -> bool:
        """Tell whether the service lives; note when it died."""
        if not self._service:
            return False
        pid, status = os.waitpid(self._service, os.WNOHANG)
        if not pid:
            return True
        self._service = 0
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            self.tally.faults.append(f"the service ended by itself with the status {status}")
        self.tally.kills[self._life.role] += 1
        steps = sorted({entry.step.value for entry in self._journal()}) or ["nothing"]
        self.tally.moments["+".join(steps)] += 1
        return False

    def _kill_service(self) -> None:
        if self._is_serving():
            os.kill(self._service, signal.SIGKILL)
            self._wait(lambda: not self._is_serving())

    def _total(self) -> int:
        """Return the MiB of all shares together: a byte that is counted twice leaves no room for another one."""
        return sum(mib * len(on) for held in self._shares.values() for mib, on in held)

    def _end_service(self) -> None:
        if self._service:
            os.kill(self._service, signal.SIGKILL)
            os.waitpid(self._service, 0)

    # --- the judgement

    def _come_to_rest(self) -> None:
        """Wait until all is as it was told to be, and note what is wrong then."""
        self._ensure_service()
        if not self._wait(self._is_at_rest, must=False):
            self.tally.faults.append(f"not at rest: told {self._away}, seen {self._files.read(self._files.seen)}")
        self.tally.calms += 1
        faults = judge(self._shown())
        if faults:
            faults.append("The log of the services ends with:\n" + self._read_log())
        self.tally.faults += faults
        for name, programs in self._programs.items():
            if not self.tally.faults and not self._away[name]:
                self.tally.faults += [
                    f"program {each.id.pid} of {name} has lost the content of its memory"
                    for each in programs
                    if self._machine.content_of(each) != each.number
                ]

    def _read_log(self) -> str:
        return "\n".join(self._files.log.read_text().splitlines()[-_LINES:])

    def _shown(self) -> Shown:
        return Shown(
            programs={
                name: [(each, self._machine.state_of(each)) for each in programs]
                for name, programs in self._programs.items()
            },
            journal=self._journal(),
            used={
                device: self._machine.used(device) - stranger.mib
                for device, stranger in zip(self._machine.devices, self._strangers, strict=True)
            },
            away={name for name, away in self._away.items() if away},
            troubles={name: share["trouble"] for name, share in self._seen_shares().items()},
        )

    def _end_shares(self) -> None:
        """Bring all shares back, judge, end them, and expect that the journal has no entry then."""
        self._away = dict.fromkeys(self._shares, False)
        self._order()
        self._come_to_rest()
        for programs in self._programs.values():
            for each in programs:
                self._machine.kill(each)
        self._programs = {}
        self._order()
        self._wait(lambda: not self._journal(), must=False)
        self.tally.faults += [f"the share {each.name} has ended, but not its entry" for each in self._journal()]

    def _is_at_rest(self) -> bool:
        """Tell whether the service has read the newest orders, and all shares are as told."""
        seen = self._files.read(self._files.seen)
        if seen is None or seen["serial"] != self._serial or not self._is_serving() or seen["service"] != self._service:
            return False
        return all(
            self._seen_shares().get(name, {}).get("recovered") and self._phase_of(name) is _phase(away)
            for name, away in self._away.items()
        )

    def _seen_shares(self) -> dict[str, Any]:
        return (self._files.read(self._files.seen) or {"shares": {}})["shares"]

    def _phase_of(self, name: str) -> SharePhase | None:
        found = self._seen_shares().get(name)
        return None if found is None else SharePhase(found["phase"])

    def _journal(self) -> Any:
        return FileJournal(self._files.journal, boot="boot-1").entries()

    def _wait(self, condition: Callable[[], bool], *, must: bool = True) -> bool:
        """Wait for the condition, and take lent memory back meanwhile; return whether the condition came true."""
        deadline, self._waited = Deadline(30), 0.0
        while not condition():
            self._waited = deadline.waited()
            if self._waited > _LENT_FOR:
                self._take_back()
            if deadline.is_over():
                assert not must, deadline.describe("a strike, or rest")
                return False
            time.sleep(_LOOK_EVERY)
        return True


def _sum_memory(shares: Iterable[Iterable[Program]], index: int) -> int:
    """Return the MiB that the programs of these shares have on a device."""
    return sum(program.mib for programs in shares for program in programs if index in program.on)


def _phase(away: bool) -> SharePhase:
    return SharePhase.SUSPENDED if away else SharePhase.IN_USE


def _count(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "none"

"""The recovery of suspended shares after a start: what a crash interrupted is finished or undone, until all of it is.

Rules
-----
- Until it is done: a locked program waits for ever. So what the driver or the disk refused is attempted again, after a
  pause that doubles up to `LONGEST_PAUSE`.
- The rest is left alone: a later attempt is for the unfinished shares only, since the others are in use meanwhile.
- Nothing else meanwhile: what is unfinished is neither suspended nor resumed, and a suspended job stands still after
  each attempt, whether or not it succeeded.
- Nothing forgotten: the driver is asked about each share without an entry that is away by its record. After a journal
  was set aside, the driver is asked about every share without an entry.
- Threads: each attempt runs in a daemon thread, because a driver may hang; there is never more than one.

See docs/decisions/0232-try-an-unfinished-recovery-again.md,
docs/decisions/0252-ask-the-driver-what-a-lost-journal-held.md and
docs/decisions/0461-ask-the-driver-about-a-share-that-the-journal-does-not-know.md.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_gq.devices.linux.freezing import Freezer, thaw
from jupyter_gq.devices.linux.processes import ProcessId

from .suspender import Recovered, Suspender, SuspensionError, SuspensionTarget
from .threads import run_in_thread

log = logging.getLogger(__name__)

#: Seconds from the end of an attempt that left something unfinished to the next one: at first, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """The findings of one attempt."""

    #: Why this machine cannot suspend; "" = it can.
    unsupported: str
    can_move: bool
    #: State of each share in the journal by name; None = the driver or the disk failed as a whole.
    found: Mapping[str, Recovered] | None
    #: Processes whose state was in host memory before the attempt, by name of the share.
    kept: Mapping[str, tuple[ProcessId, ...]]


@dataclass(kw_only=True)
class Recovery:
    """The attempts to recover the shares of this machine, and what they have found so far."""

    suspender: Suspender
    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    #: Waits for so many seconds, in a thread.
    sleep: Callable[[float], None]
    #: State of each share in the journal by name; None before the end of the first attempt.
    found: dict[str, Recovered] | None = field(init=False, default=None)
    #: Whether the driver or the disk failed as a whole, so that `found` is not all.
    has_failed: bool = field(init=False, default=False)
    #: Why this machine cannot suspend; None = not known yet, "" = it can.
    unsupported: str | None = field(init=False, default=None)
    can_move: bool = field(init=False, default=False)
    #: Processes whose state was in host memory before the recovery, by name of the share.
    kept: dict[str, tuple[ProcessId, ...]] = field(init=False, default_factory=dict)
    #: When the next attempt may begin, in seconds awake; None = nothing is left to recover.
    _due_at: float | None = field(init=False, default=float("-inf"))
    _pause: float = field(init=False, default=FIRST_PAUSE)
    _busy: bool = field(init=False, default=False)

    @property
    def unfinished(self) -> frozenset[str]:
        """The shares of which it is not known whether their state is on their devices, by name."""
        return frozenset(name for name, found in (self.found or {}).items() if found is Recovered.UNKNOWN)

    def begin_if_due(
        self,
        targets: Mapping[str, SuspensionTarget],
        freezers: Mapping[str, Freezer],
        away: frozenset[str],
        on_end: Callable[[], None],
    ) -> None:
        """Begin the first attempt, or another one if something is unfinished and the pause is over.

        `targets` are the shares whose phase is not known for sure, and `freezers` those of jobs among them, by name.
        `away` are the names of those that are away from their devices by their records. `on_end` is called in the loop
        after the attempt.
        """
        if self._busy or self._due_at is None or self.awake() < self._due_at:
            return
        self._busy = True
        is_whole = self.found is None or self.has_failed
        names = None if is_whole else self.unfinished

        def finish(attempt: _Attempt | None) -> None:
            self._note(attempt, is_whole=is_whole)
            on_end()

        run_in_thread("recover suspended shares", lambda: self._attempt(names, targets, freezers, away), finish)

    def look_at(self, name: str) -> None:
        """Let an attempt begin at once that looks at a share, whose entry may be lost with a former journal."""
        self.found = {**(self.found or {}), name: Recovered.UNKNOWN}
        self._due_at, self._pause = self.awake(), FIRST_PAUSE

    def find_kept(self, target: SuspensionTarget, *, is_job: bool) -> tuple[ProcessId, ...]:
        """Return the processes of a share whose state was in host memory before the recovery.

        For a job, processes that began before each of its present ones are left out: they are of an earlier run, which
        has left them in the journal.
        """
        kept = self.kept.get(target.name, ())
        began = min((each.ticks for each in target.find_processes()), default=0) if kept and is_job else 0
        return tuple(each for each in kept if each.ticks >= began)

    def forget(self, name: str) -> None:
        """Forget what was found of a share that has ended, since a later one of this name is another one."""
        if self.found is not None:  # replaced, because threads read it
            self.found = {each: state for each, state in self.found.items() if each != name}

    def _attempt(
        self,
        names: frozenset[str] | None,
        targets: Mapping[str, SuspensionTarget],
        freezers: Mapping[str, Freezer],
        away: frozenset[str],
    ) -> _Attempt:
        """Let the suspender recover the shares with these names, None = all; jobs stand still again afterwards."""
        support = self.suspender.support()
        suspensions = [each for each in self.suspender.suspensions() if names is None or each.name in names]
        wanted = [target for name, target in targets.items() if names is None or name in names]
        # Asked first: a share whose entry is removed by the recovery lacks none.
        lacking = [each for each in wanted if self.suspender.may_lack(each.name, is_away=each.name in away)]
        found: Mapping[str, Recovered] | None = None
        try:
            for suspension in suspensions:
                freezer = freezers.get(suspension.name)
                (thaw if freezer is None else freezer.thaw)(suspension.processes)
            found = {**self.suspender.recover(names), **self._rebuild(lacking, freezers)}
        except SuspensionError as error:
            log.warning("after the start, the suspended shares could not be recovered: %s", error)
        finally:
            self._freeze_suspended(names, freezers, found or {})
        return _Attempt(
            unsupported="" if support.available else support.detail,
            can_move=support.available and support.can_move,
            found=found,
            kept={each.name: each.processes for each in suspensions},
        )

    def _rebuild(self, targets: Iterable[SuspensionTarget], freezers: Mapping[str, Freezer]) -> dict[str, Recovered]:
        """Let the suspender find again what a lost journal held of these shares; return the state of each, by name.

        A job that stood still, and of which the driver tells nothing, stands still again.
        """
        found: dict[str, Recovered] = {}
        for target in targets:
            freezer = freezers.get(target.name)
            stood_still = freezer is not None and freezer.stands_still()
            if freezer is not None:
                freezer.thaw()
            found[target.name] = self.suspender.rebuild(target)
            if freezer is not None and stood_still and found[target.name] is Recovered.UNKNOWN:
                freezer.freeze(self.sleep)
        return found

    def _freeze_suspended(
        self, names: frozenset[str] | None, freezers: Mapping[str, Freezer], found: Mapping[str, Recovered]
    ) -> None:
        """Stop the jobs that are still suspended, whether or not the attempt succeeded: others use their devices.

        A job whose GPU state is lost goes on, so that it can end.
        """
        for name in [each.name for each in self.suspender.suspensions() if names is None or each.name in names]:
            if name in freezers and found.get(name) is not Recovered.LOST:
                freezers[name].freeze(self.sleep)

    def _note(self, attempt: _Attempt | None, *, is_whole: bool) -> None:
        """Take over what an attempt has found; None = it failed by an error that the log has.

        After a failure, what is known about this machine stays as it was: idle servers are stopped by a refusal.
        """
        self._busy = False
        found = None if attempt is None else attempt.found
        if attempt is not None and found is not None:
            if attempt.unsupported and attempt.unsupported != self.unsupported:
                log.info("idle shares are not suspended here: %s", attempt.unsupported)
            self.unsupported = attempt.unsupported
        if attempt is not None:
            self.can_move = attempt.can_move
            self.kept = {**attempt.kept, **self.kept}
        known = self.found or {}
        # A share that has ended during a later attempt was forgotten, and stays so.
        self.found = known | {name: state for name, state in (found or {}).items() if is_whole or name in known}
        self.has_failed = is_whole and found is None
        if not (self.has_failed or self.unfinished):
            self._due_at = None
            return
        self._due_at, self._pause = self.awake() + self._pause, min(LONGEST_PAUSE, 2 * self._pause)

"""The limits of the driver on the device memory of runs; the port `capabilities.memory_limits` of local backends.

Rules
-----
- Own group: a limit counts for all processes of a control group together, so it is set only on the group of one run.
- Confirmed: a limit counts if the driver shows it after it was set. The limits are read every `_CHECK_INTERVAL` s.
- For all: no limit counts while a program of the run uses a device outside the group. Systemd, for one, starts programs
  in groups of their own.
- Threads: the driver is called in threads, because it may hang. Each run has one call at most under way.
- Cleared first: the limits of a group are cleared before the group is removed, and not while one is being set.
- Removed in the loop: a backend makes the group of a run and starts its first program in one step of the loop, so that
  the group of a run that is launched again is never removed between the two.
- One run at a time: a run that is launched again has the group of the one before. Nothing is set on a group as long as
  a call for the run before is under way, since a slow driver would clear the limit of the new run. If that takes
  long, the run has no limit meanwhile, and says so.
- Left over: what an earlier service has set is not known, so that the first call for a run reads all devices, and the
  next ones too, until each device has told its limit. A limit that could not be cleared is tried again like one that
  could not be set.
- Each alone: a device that refuses a call keeps no other device, and no other group, from being read or cleared.

See docs/decisions/0205-let-the-driver-limit-control-groups.md,
docs/decisions/0235-read-the-limits-that-an-earlier-service-left.md and
docs/decisions/0233-let-one-program-outside-the-group-end-the-drivers-level.md.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.backends.capabilities import LimitState
from jupyter_gq.devices.linux.processes import ProcessId, is_running
from jupyter_gq.devices.nvidia.driver_limits import LimitError, MemoryLimiter, NeverLimitedError, is_kept
from jupyter_gq.devices.suspension.threads import run_aside, run_in_thread
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.workload import RunKey

from .control_groups import ParentGroup, read_pids, remove_group

log = logging.getLogger(__name__)

#: Seconds after which the limits of a run are read again.
_CHECK_INTERVAL = 30.0
_NO_GROUP = "The run has no control group of its own: with systemd, set Delegate=yes in the unit of the Hub."
#: Seconds for which a run waits for the end of the limits before it, until it says so.
_LONG_WAIT = 30.0
_WAITS = (
    "The GPU driver has not answered for more than half a minute while it clears the memory limits that the control "
    "group had before, so it does not limit the memory of this share yet. Look for its errors in the kernel's log "
    "(dmesg)."
)
_OUTSIDE = (
    "A program that uses the GPU (process {pid}) has left the control group of the share, so the GPU driver does not "
    "limit its memory. Start it anew from the notebook or the job itself, without systemd-run."
)


@dataclass(kw_only=True, slots=True)
class _Run:
    """The limits of one run."""

    #: Folder of its control group; "" = it has none.
    group: str
    #: The limits that the run shall have, by device.
    wanted: dict[str, MiB] = field(default_factory=dict)
    #: The limits that were wanted at the last call of the driver, and those that it has; None = not known.
    tried: dict[str, MiB] | None = None
    set: dict[str, MiB] | None = None
    state: LimitState = field(default_factory=LimitState)
    #: Processes that use a device and are not in the group, or were not when they were seen before.
    outside: tuple[ProcessId, ...] = ()
    #: Since when limits are wanted that cannot be set yet, because those before are being cleared; None = they can.
    waits_since: float | None = None
    #: When the limits were read last.
    checked_at: float | None = None
    #: Whether a call of the driver is under way.
    busy: bool = False
    #: Whether the run has ended during that call, so that the group is removed after it.
    ended: bool = False


@dataclass(kw_only=True)
class DriverLimits:
    """The memory limits of all runs of this machine, set by the driver on their control groups."""

    limiter: MemoryLimiter
    #: Ids of all devices of this machine.
    devices: Sequence[str]
    #: The group below which runs have groups of their own; None = they have none.
    parent: ParentGroup | None
    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    #: Called after the state of a run has changed.
    on_change: Callable[[], None]
    _runs: dict[RunKey, _Run] = field(init=False, default_factory=dict)
    #: The groups of runs that have ended whose limits are being cleared, each with the number of such runs.
    _left: Counter[str] = field(init=False, default_factory=Counter)

    # --- the port

    def want(self, workload: str, run: int, limits: Mapping[str, MiB]) -> None:
        """Begin to set these limits, by device, unless the run has them; see `capabilities.MemoryLimits`."""
        found = self._runs.get((workload, run))
        if found is None or not found.group:
            return
        if self._left[found.group]:
            self._wait(found, f"limits of {workload}", is_wanted=bool(limits))
            return
        found.wanted, found.waits_since = dict(limits), None
        due = found.checked_at is None or self.awake() - found.checked_at >= _CHECK_INTERVAL
        if not found.busy and (found.wanted != found.tried or ((found.wanted or found.set != {}) and due)):
            self._apply(found, f"limits of {workload}")

    def note_users(self, workload: str, run: int, users: Collection[ProcessId]) -> None:
        """Look which of these processes of a run, which use a device, are outside its group, or have been."""
        found = self._runs.get((workload, run))
        if found is None or not found.group:
            return
        inside = read_pids(found.group)
        if inside is None:
            return
        # A process that has ended since it was seen is in no group. What one has taken outside is not counted later.
        evading = (each for each in users if each.pid not in inside or each in found.outside)
        outside = tuple(sorted(filter(is_running, evading)))
        if outside != found.outside:
            found.outside = outside
            if outside:
                log.warning("limits of %s: %s", workload, _OUTSIDE.format(pid=outside[0].pid))
            self.on_change()

    def state(self, workload: str, run: int) -> LimitState:
        """Return the devices on which the limit of a run is confirmed, and what is wrong with the others."""
        found = self._runs.get((workload, run))
        if found is None or not found.outside:
            return LimitState() if found is None else found.state
        outside = _OUTSIDE.format(pid=found.outside[0].pid)
        return LimitState(trouble=" ".join(filter(None, [outside, found.state.trouble])))

    # --- for the backends

    def enter(self, key: RunKey, group: str, why: str = _NO_GROUP) -> None:
        """Know the control group of a run, and begin anew if it is another one than before.

        "" = the run has none, for the reason `why`.
        """
        found = self._runs.get(key)
        if found is not None and found.group != group:
            self.leave(key, found.group)
            found = None
        if found is None:
            self._runs[key] = _Run(group=group, state=LimitState(trouble="" if group else why))

    def leave(self, key: RunKey, group: str) -> None:
        """Clear the limits of a run that has ended, then remove its control group."""
        found = self._runs.pop(key, None)
        if found is not None and found.busy:
            found.ended = True
            self._left[found.group] += 1  # until that call is over
        elif found is not None and found.set == {}:
            remove_group(group)
        else:
            self._remove_later([group])

    def remove(self, groups: Sequence[str]) -> None:
        """Clear the limits of control groups that have no processes, whoever set them, then remove the groups."""
        if existing := [group for group in groups if group]:
            self._remove_later(existing)

    # --- inside

    def _wait(self, found: _Run, name: str, *, is_wanted: bool) -> None:
        """Let a run say that it has no limit, if it has waited long for the end of those that its group had before."""
        now = self.awake()
        found.waits_since = (now if found.waits_since is None else found.waits_since) if is_wanted else None
        state = LimitState(trouble=_WAITS)
        if found.waits_since is not None and now - found.waits_since >= _LONG_WAIT and found.state != state:
            found.state = state
            log.warning("%s: %s", name, _WAITS)
            self.on_change()

    def _remove_later(self, groups: Sequence[str]) -> None:
        """Clear the limits of groups in a thread, then remove the groups in the loop; they are in `_left` meanwhile."""
        self._left.update(groups)

        def work() -> None:
            for group in groups:
                self._clear_all(group)

        def finish(_: None) -> None:
            self._left -= Counter(groups)  # which drops what comes to 0
            for group in groups:
                remove_group(group)

        run_in_thread("clear memory limits", work, finish)

    def _clear_all(self, group: str) -> None:
        """Clear the limits of a control group on all devices."""
        for trouble in clear_limits(self.limiter, self.devices, group):
            log.info("the memory limits of the control group %s were not cleared: %s", group, trouble)

    def _apply(self, found: _Run, name: str) -> None:
        """Set the wanted limits of a run in a thread, and read them back."""
        wanted, before, now = dict(found.wanted), found.set, self.awake()
        found.busy = True

        def finish(result: tuple[LimitState, dict[str, MiB] | None] | None) -> None:
            state, left = result or (LimitState(), None)
            found.busy, found.tried, found.checked_at = False, wanted, now
            found.set = None if left is None else {**left, **wanted}
            if found.ended:
                self._remove_later([found.group])
                self._left -= Counter([found.group])
                return
            changed, found.state = state != found.state, state
            if changed:
                if found.state.trouble:
                    log.warning("%s: %s", name, found.state.trouble)
                self.on_change()

        run_in_thread(name, lambda: self._set_all(found.group, wanted, before), finish)

    def _set_all(
        self, group: str, wanted: Mapping[str, MiB], before: Mapping[str, MiB] | None
    ) -> tuple[LimitState, dict[str, MiB] | None]:
        """Set the limits that differ from those before, and read all; `before` is None if it is not known.

        Returns what is confirmed, and the limits that are not wanted any more and could not be cleared; None if a
        device could not tell which limit it has.
        """
        before, complete = self._read_all(group) if before is None else (before, True)
        left = {device: before[device] for device in before.keys() - wanted.keys() if not self._clear(device, group)}
        confirmed, troubles = set(), []
        for device, limit in wanted.items():
            try:
                if before.get(device) != limit or not is_kept(limit, self.limiter.read_limit(device, group)):
                    self.limiter.set_limit(device, group, limit)
                shown = self.limiter.read_limit(device, group)
            except LimitError as error:
                troubles.append(str(error))
                continue
            if is_kept(limit, shown):
                confirmed.add(device)
            else:
                troubles.append(f"NVIDIA's driver was told the limit {limit} MiB, and does not show it.")
        return LimitState(
            confirmed=frozenset(confirmed), trouble=" ".join(dict.fromkeys(troubles))
        ), left if complete else None

    def _read_all(self, group: str) -> tuple[dict[str, MiB], bool]:
        """Return the limits that the driver shows for a group, by device, and whether each device could tell."""
        shown, complete = {}, True
        for device in self.devices:
            try:
                limit = self.limiter.read_limit(device, group)
            except NeverLimitedError:
                continue
            except LimitError:
                complete = False
                continue
            if limit is not None:
                shown[device] = limit
        return shown, complete

    def _clear(self, device: str, group: str) -> bool:
        """Clear a limit that is not wanted any more; return whether that succeeded."""
        try:
            self.limiter.set_limit(device, group, None)
        except LimitError as error:
            log.info("the memory limit of the control group %s was not cleared: %s", group, error)
            return False
        return True


def clear_limits(limiter: MemoryLimiter, devices: Iterable[str], group: str) -> list[str]:
    """Clear the limits of a control group on these devices, if the driver shows any; return refusals, as sentences."""
    refusals = []
    for device in devices:
        try:
            if limiter.read_limit(device, group) is not None:
                limiter.set_limit(device, group, None)
        except LimitError as error:
            refusals.append(str(error))
    return list(dict.fromkeys(refusals))


def clear_left_limits(limiter: MemoryLimiter, devices: Sequence[str], folder: Path) -> None:
    """Clear the limits of all runs with groups in `folder`, after the limits of the driver were switched off.

    The thread in which that is done does nothing if the driver knows no such limits.
    """
    groups = sorted(map(str, folder.glob("jupyter-gq-*/")))

    def work() -> None:
        for group in groups:
            for refusal in clear_limits(limiter, devices, group):
                log.debug("the memory limits of the control group %s are not cleared: %s", group, refusal)

    if groups:
        run_aside("clear memory limits", work)

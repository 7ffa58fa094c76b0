"""The rule of the memory watchdog: what is done about a share whose programs hold more memory than its limit.

Rules
-----
- Sum: the memory of all processes of a share on a device counts together against the limit on that device.
- Tolerance: an excess within the tolerance is no offence, unless the device has less free memory than the reserve.
- One step at a time: warn, interrupt, terminate, kill. Each step follows the step before after a time of its own.
- Largest only: each step acts on the process that holds most. A process that has become the largest since the last
  step begins at the interrupt, after the full time.
- Missing data is no offence: a sample without a figure lets nothing follow, and its time does not count.
- Forgiven: a share that is back within its limit begins anew.

See docs/decisions/0146-end-only-the-largest-offender-after-a-warning.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import MiB, Seconds

from .meter import DeviceUse


class Act(StrEnum):
    """The steps against a share that is over its limit, in this order."""

    WARN = "warn"
    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    KILL = "kill"


_ORDER = tuple(Act)
_AMOUNT = MiB(256)
_LONGEST_GAP = Seconds(30)
_NO_TIME = Seconds(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchRule:
    """The times and amounts of the watchdog."""

    #: Whether shares are watched at all.
    enabled: bool = True
    #: MiB above the limit that are no offence while the device has enough free memory.
    tolerance: MiB = _AMOUNT
    #: MiB of each device that shall stay free; below it there is no tolerance.
    reserve: MiB = _AMOUNT
    #: Seconds over the limit before each act, since the act before.
    after: Mapping[Act, Seconds] = field(
        default_factory=lambda: {
            Act.WARN: _NO_TIME,
            Act.INTERRUPT: Seconds(60),
            Act.TERMINATE: Seconds(60),
            Act.KILL: Seconds(10),
        }
    )
    #: Longest time between two samples that counts as known.
    longest_gap: Seconds = _LONGEST_GAP


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitedUse:
    """The use of one device by the processes of a share, and the memory that they may hold there."""

    limit: MiB
    use: DeviceUse


@dataclass(frozen=True, kw_only=True, slots=True)
class Excess:
    """The memory that a share holds above its limit on one device, and the process that holds most."""

    device: str
    limit: MiB
    used: MiB
    #: The process that holds most of it.
    largest: ProcessId
    largest_used: MiB

    @property
    def over(self) -> MiB:
        """The MiB above the limit."""
        return MiB(self.used - self.limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """The record of the watchdog about a share between samples; the default: the share was never over its limit."""

    #: Last act; None = nothing was done.
    done: Act | None = None
    #: Process on which the last act was; None = the share was only warned, or nothing was done.
    target: ProcessId | None = None
    #: Seconds for which the share was seen over its limit since that act.
    over_for: Seconds = _NO_TIME
    #: Time of the last sample, if it showed the share over its limit; None = it did not, or was incomplete.
    over_at: float | None = None
    excess: Excess | None = None
    #: Whether the last sample was complete.
    known: bool = False

    @property
    def next_act(self) -> Act:
        """The act that follows; after the last one that is again the last."""
        return _ORDER[0] if self.done is None else _ORDER[min(_ORDER.index(self.done) + 1, len(_ORDER) - 1)]

    def seconds_left(self, rule: WatchRule) -> Seconds:
        """Return the seconds until the next act, if the share stays over its limit."""
        return Seconds(max(0.0, rule.after[self.next_act] - self.over_for))


def judge(before: Watched, samples: Sequence[LimitedUse], now: float, rule: WatchRule) -> tuple[Watched, Act | None]:
    """Return what to remember after a sample, and the act that is due now; None = nothing is due."""
    known = bool(samples) and all(map(_is_known, samples))
    excesses = [found for sample in samples if _is_known(sample) and (found := _excess(sample, rule)) is not None]
    if not excesses:
        return (Watched(known=True) if known else replace(before, over_at=None, known=False)), None
    excess = max(excesses, key=lambda each: each.over)
    passed = 0.0 if before.over_at is None else now - before.over_at
    counted = passed if 0 <= passed <= rule.longest_gap else 0.0
    after = replace(before, over_for=Seconds(before.over_for + counted), over_at=now, excess=excess, known=known)
    if after.target is not None and after.target != excess.largest:
        after = replace(after, done=Act.WARN, target=None, over_for=_NO_TIME)
    due = after.next_act
    if after.over_for < rule.after[due]:
        return after, None
    target = None if due is Act.WARN else excess.largest
    return replace(after, done=due, target=target, over_for=_NO_TIME), due


def _is_known(sample: LimitedUse) -> bool:
    processes = sample.use.processes
    return processes is not None and all(each.memory is not None for each in processes)


def _excess(sample: LimitedUse, rule: WatchRule) -> Excess | None:
    """Return by how much the share is over its limit on a device that was sampled; None if it is within the limit."""
    use = sample.use
    held = [(each.memory or MiB(0), each.process) for each in use.processes or ()]
    used = sum(memory for memory, _ in held)
    is_short = use.free is not None and use.free < rule.reserve
    if not held or used <= sample.limit + (0 if is_short else rule.tolerance):
        return None
    most, process = max(held)
    return Excess(device=use.device, limit=sample.limit, used=MiB(used), largest=process, largest_used=most)

"""The choice of the slots of a node that take new work. Pure.

A device plugin says how many devices work, and not which. So a slot stands for any device, and only numbers are kept
right.

Rules
-----
- The count rule: as many free slots take new work as devices are left: the number that works, less the slots in use or
  blocked, less the devices of foreign pods. If a device fails, one free slot is closed, whichever device that was.
- The joining rule: a slot in use takes further shares, unless its device is known to have failed, or more slots are in
  use than devices work.
- The choice rule: free slots whose device is known to work come first, and slots whose device has failed come last.

See docs/decisions/0068-count-free-slots.md.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum


class SlotHealth(IntEnum):
    """The state of the device behind a slot, from the best."""

    WORKS = 0
    UNKNOWN = 1
    FAILED = 2


def choose_open_slots(
    slots: Sequence[str],
    working: int,
    *,
    used: Collection[str],
    blocked: Collection[str],
    foreign: int,
    health: Callable[[str], SlotHealth],
) -> frozenset[str]:
    """Return those of `slots`, which are in the order of their numbers, that take new work.

    `working` is the number of devices that work, `foreign` the number that foreign pods hold. Chosen are as many free
    slots as devices are left, best health first, and slots in use that can take further shares.
    """
    free = [slot for slot in slots if slot not in used and slot not in blocked]
    left = max(0, working - foreign - (len(slots) - len(free)))
    joinable = [slot for slot in slots if slot in used and slot not in blocked and health(slot) < SlotHealth.FAILED]
    return frozenset([*sorted(free, key=health)[:left], *joinable[: max(0, working)]])

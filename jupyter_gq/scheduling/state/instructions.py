"""What the books come to in the end: the instructions of the cycle, in the order in which to carry them out."""

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.decision import Admit, Grow, Instruction, Reserve
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import whole_workload

from .cycle_state import Books


def decided(books: Books) -> tuple[Instruction, ...]:
    """Return all instructions: first what starts, in the order of admission, then the others in the order decided."""
    shrinks = [shrink for shrink in books.units.shrinks() if shrink.workload not in books.evicted]
    return (*books.resumed, *_starts(books), *books.instructions, *shrinks, *_reservations(books))


def _starts(books: Books) -> list[Instruction]:
    """Of each workload all units together; who came last counts first as above the quota."""
    over = {account.queue.name: account.over_quota - account.pledged for account in books.accounts}
    together: dict[str, list[Workload]] = {}
    for unit in books.admitted.values():
        together.setdefault(whole_workload(unit).id, []).append(unit)
    starts: list[Instruction] = []
    for name, units in reversed(together.items()):
        queue = units[0].queue
        milli = sum(gang.held(unit) for unit in units)
        part = max(0, min(milli, over[queue])) if units[0].preemptible else 0
        over[queue] -= part
        placement = tuple(task for unit in units for task in unit.placement)
        if name in books.admitted:
            starts.append(Admit(workload=name, placement=placement, over_quota=MilliGpu(part)))
        else:
            starts.append(Grow(workload=name, placement=placement))
    starts.reverse()
    return starts


def _reservations(books: Books) -> list[Reserve]:
    """What is to be written down of the places that are kept; who starts needs none any more."""
    found = []
    for name in sorted((books.index.reserved.keys() | books.kept) - books.admitted.keys()):
        if not books.index.is_observed(books.workloads[name]):
            continue
        place = _kept_place(books, name) if name in books.kept else ()
        if place != books.workloads[name].reserved:
            found.append(Reserve(workload=name, placement=place))
    return found


def _kept_place(books: Books, name: str) -> tuple[TaskPlacement, ...]:
    hold = books.holds.get(name)
    return books.promised.get(name) or books.moving.get(name) or (hold.place if hold else ())

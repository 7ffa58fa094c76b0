"""For whom somebody stops, said anew where the cycle went on: the room may have gone to another one in the end.

Who gets it is told to the owner of the victim, and is served first when the room is free: so it must be true.
"""

from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload

from . import explain
from .books import Books
from .decision import Evict
from .ordering import seniority


def name_beneficiaries(books: Books) -> None:
    """Each eviction of this cycle is for one whose room was kept, on the devices that become free."""
    first: dict[str, Workload] = {}
    takers = (books.waiting[name] for name in books.promised if name in books.waiting)
    for taker in sorted(takers, key=seniority):
        for task in books.promised[taker.id]:
            for device in task.devices:
                first.setdefault(device, taker)
    for place, instruction in enumerate(books.instructions):
        if not isinstance(instruction, Evict) or instruction.by is None:
            continue
        if instruction.by in books.promised or instruction.by in books.admitted:
            continue
        victim = books.workloads[instruction.workload]
        gets = [first[device] for task in victim.placement for device in task.devices if device in first]
        if not gets:
            continue
        oldest = min(gets, key=seniority)
        sentence = _sentence(books, instruction, victim, oldest)
        if sentence is not None:
            changed = replace(instruction, by=oldest.id, sentence=sentence)
            books.instructions[place] = books.evicted[victim.id] = changed


def _sentence(books: Books, instruction: Evict, victim: Workload, taker: Workload) -> str | None:
    """The same reason for the other one; None where it would not be true of him."""
    if instruction.reason is EvictReason.CONSOLIDATED:
        return explain.moved(victim, taker, sorted({task.node for task in books.moving[victim.id]}))
    if instruction.reason is EvictReason.RECLAIMED and taker.queue != victim.queue:
        return explain.reclaimed(victim, taker)
    if instruction.reason is EvictReason.PREEMPTED and taker.queue == victim.queue and taker.priority > victim.priority:
        return explain.preempted(victim, taker)
    return None

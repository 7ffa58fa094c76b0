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
    takers = sorted((books.waiting[name] for name in books.promised if name in books.waiting), key=seniority)
    for place, instruction in enumerate(books.instructions):
        if not isinstance(instruction, Evict) or instruction.by is None:
            continue
        if instruction.by in books.promised or instruction.by in books.admitted:
            continue
        victim = books.workloads[instruction.workload]
        taker = next((each for each in takers if _gets(books, each, victim)), None)
        sentence = None if taker is None else _sentence(books, instruction, victim, taker)
        if taker is not None and sentence is not None:
            changed = replace(instruction, by=taker.id, sentence=sentence)
            books.instructions[place] = books.evicted[victim.id] = changed


def _gets(books: Books, taker: Workload, victim: Workload) -> bool:
    freed = {device for task in victim.placement for device in task.devices}
    return any(device in freed for task in books.promised[taker.id] for device in task.devices)


def _sentence(books: Books, instruction: Evict, victim: Workload, taker: Workload) -> str | None:
    """The same reason for the other one; None where it would not be true of him."""
    if instruction.reason is EvictReason.CONSOLIDATED:
        return explain.moved(victim, taker, sorted({task.node for task in books.moving[victim.id]}))
    if instruction.reason is EvictReason.RECLAIMED and taker.queue != victim.queue:
        return explain.reclaimed(victim, taker)
    if instruction.reason is EvictReason.PREEMPTED and taker.queue == victim.queue and taker.priority > victim.priority:
        return explain.preempted(victim, taker)
    return None

"""Launch capacity: how many of the workloads that a cycle admits can be launched soon."""

from collections.abc import Callable, Mapping, Sequence

from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Instruction


def split_by_capacity(
    instructions: Sequence[Instruction], capacity: Mapping[Kind, int], kind_of: Callable[[str], Kind]
) -> tuple[tuple[Instruction, ...], tuple[Admit, ...]]:
    """Return the instructions without the admissions that exceed the capacity, and these, both in the given order.

    `capacity` is a number of tasks for each kind; a kind that is not named has no bound. `kind_of` returns the kind of
    the workload of an id.

    No small workload passes a gang: from the first admission on that has to wait, all later ones of its kind wait. The
    last one that is launched may be larger than the capacity that is left, or a very large gang would never start.
    """
    left = dict(capacity)
    now: list[Instruction] = []
    deferred: list[Admit] = []
    for instruction in instructions:
        if not isinstance(instruction, Admit) or (kind := kind_of(instruction.workload)) not in left:
            now.append(instruction)
        elif left[kind] > 0:
            left[kind] -= max(1, len(instruction.placement))
            now.append(instruction)
        else:
            deferred.append(instruction)
    return tuple(now), tuple(deferred)

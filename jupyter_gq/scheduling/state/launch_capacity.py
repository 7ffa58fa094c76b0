"""Launch capacity: how many of the workloads that a cycle admits can be launched soon."""

from collections.abc import Callable, Mapping, Sequence

from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Grow


def split_by_capacity(
    starts: Sequence[Admit | Grow], capacity: Mapping[Kind, int], kind_of: Callable[[str], Kind]
) -> tuple[tuple[Admit | Grow, ...], tuple[Admit, ...]]:
    """Return what can be launched now, and the admissions that have to wait, both in the given order.

    No small workload passes a gang: from the first admission on that has to wait, all later ones of its kind wait. The
    last one that is launched may be larger than the capacity that is left, or a very large gang would never start.
    """
    left = dict(capacity)
    now: list[Admit | Grow] = []
    deferred: list[Admit] = []
    for start in starts:
        kind = kind_of(start.workload) if left and isinstance(start, Admit) else None
        if kind is None or kind not in left or not isinstance(start, Admit):
            now.append(start)
        elif left[kind] > 0:
            left[kind] -= max(1, len(start.placement))
            now.append(start)
        else:
            deferred.append(start)
    return tuple(now), tuple(deferred)

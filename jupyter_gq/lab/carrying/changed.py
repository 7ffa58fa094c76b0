"""Sentences on variables that go along and are not in the job what they are in the kernel.

See docs/decisions/0231-tell-what-pickles-lose-in-silence.md.
"""

from collections.abc import Sequence

from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.effects.changes import find_stored_names
from jupyter_gq.lab.reading.cells import parse_cell

#: Most names in one sentence.
_MOST_NAMED = 3


def explain_changed(report: JsonMapping, steps: Sequence[Step]) -> list[str]:
    """Return sentences on caches that are empty in the job, and on arrays that no longer share their memory.

    `report` is that of the kernel. Arrays are named only if a cell that is sent changes one of them in place.
    """
    trees = [parse_cell(step.source) for step in steps if step.why == "target"]
    stored = {name for tree in trees if tree is not None for name in find_stored_names(tree.body)}
    notes = [_explain_view(names, stored) for names in report["views"] if stored.intersection(names)]
    return [*_explain_caches(report["caches"]), *notes]


def _explain_caches(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [
        f"Empty in the job: the cache of {_join(names)}, which functools keeps in this kernel only. "
        "The job computes its values again."
    ]


def _explain_view(names: Sequence[str], stored: set[str]) -> str:
    """Return a sentence on arrays that share memory, some of which are changed."""
    changed = [name for name in names if name in stored]
    others = [name for name in names if name not in stored] or changed
    return (
        f"{_join(names)} share their memory in this kernel, and have one each in the job: what the cell changes in "
        f"{_join(changed)} does not show in {_join(others)} there. Replay the cells if the job needs that."
    )


def _join(names: Sequence[str]) -> str:
    """Return the first names in a sentence: "a, b and c"."""
    named = [*names[:_MOST_NAMED], *(["others"] if len(names) > _MOST_NAMED else [])]
    return " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))

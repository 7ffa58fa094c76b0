"""Sentences on what a job with variables lacks, because the cells that did it do not run in the job.

See docs/decisions/0193-tell-what-no-variable-takes-along.md and
docs/decisions/0224-tell-what-was-done-with-a-variable-that-stays.md.
"""

from collections.abc import Collection, Sequence

from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.effects.changes import find_handed_names
from jupyter_gq.lab.effects.process_state import find_process_state
from jupyter_gq.lab.reading.cells import make_title, parse_cell
from jupyter_gq.lab.reading.lookups import find_lookups
from jupyter_gq.lab.reading.names import find_makers

#: Most cells, and most names of each, in one sentence.
_MOST_NAMED = 3
_REMEDY = "If the job needs it, give such a cell the tag gq-setup, or replay the cells."


def explain_lost(staying: Collection[str], replayed: Collection[int], steps: Sequence[Step]) -> list[str]:
    """Return sentences on what cells that do not run in the job have set or changed, and the job does not have.

    `staying` are the variables that stay, and `replayed` the places in the prefix of the cells that run.
    """
    before = [step for step in steps if step.why != "target"]
    sent = [step for step in steps if step.why == "target"]
    lost = [step.why == "ran" and step.index not in replayed for step in before]
    return [
        *_explain_lookups(sent),
        *_explain(
            "Not in the job, since no variable holds it: what these cells set in this kernel",
            [(step, names) for step, names, gone in zip(before, _find_state(before), lost, strict=True) if gone],
        ),
        *_explain(
            "The job makes these variables anew, without what these cells have done with them since",
            [
                (step, names)
                for step, names, gone in zip(before, _find_done(before, staying), lost, strict=True)
                if gone
            ],
        ),
    ]


def _explain_lookups(targets: Sequence[Step]) -> list[str]:
    """Return a sentence for each target that looks for variables among all of them, since the job has only some."""
    trees = [(step, parse_cell(step.source)) for step in targets]
    found = [(step, find_lookups(tree)) for step, tree in trees if tree is not None]
    return [
        f"“{make_title(step.source)}” looks for variables by {', '.join(ways)}, and the job has only those above. "
        "Write the names of the others in the cell, if it needs them, or replay the cells."
        for step, ways in found
        if ways
    ]


def _explain(what: str, found: Sequence[tuple[Step, Sequence[str]]]) -> list[str]:
    """Return a sentence that names the first of these cells, each with the first of its names, if there are any."""
    told = [(step, names) for step, names in found if names]
    if not told:
        return []
    named = "; ".join(
        f"“{make_title(step.written)}” ({', '.join(names[:_MOST_NAMED])}{', …' if len(names) > _MOST_NAMED else ''})"
        for step, names in told[:_MOST_NAMED]
    )
    more = f", and {len(told) - _MOST_NAMED} more cells" if len(told) > _MOST_NAMED else ""
    return [f"{what}: {named}{more}. {_REMEDY}"]


def _find_state(steps: Sequence[Step]) -> list[list[str]]:
    """Return what each cell sets that no variable holds."""
    return find_process_state(step.written for step in steps)


def _find_done(steps: Sequence[Step], staying: Collection[str]) -> list[list[str]]:
    """Return those of the staying variables that each cell may have changed, after another cell had made them."""
    made: set[str] = set()
    done = []
    for step in steps:
        tree = parse_cell(step.written)
        handed = find_handed_names(tree.body) if tree is not None else set()
        done.append(sorted(handed.intersection(staying, made)))
        made.update(find_makers([step.written]))
    return done

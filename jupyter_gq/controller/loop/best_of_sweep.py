"""The best job of a sweep, by the numbers that its jobs have brought back. Pure.

The rules are those by which JupyterLab names the best job. See docs/decisions/0250-name-the-best-job-in-mails.md.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.store.protocol import Record

#: The numbers that a job has brought back, by the names of the variables, in their order.
Numbers = Mapping[str, float]


def describe_best(jobs: Sequence[tuple[Record, Numbers]]) -> str:
    """Return a sentence that names the best job with its number; "" if no job has brought one back.

    The jobs are compared by the number that their sweep names, else by the first one that a job has brought back. Of
    equal jobs, the first one is the best.
    """
    named = [record.detail.group_metric for record, _ in jobs if record.detail.group_metric]
    metric = next(iter([*named, *(name for _, numbers in jobs for name in numbers)]), "")
    compared = [(numbers[metric], record) for record, numbers in jobs if metric in numbers]
    if not compared:
        return ""
    choose = min if compared[0][1].detail.group_mode == "min" else max
    number, best = choose(compared, key=lambda each: each[0])
    return f"Best: {metric} {_format_number(number)} in {quoted(best.workload.name)}."


def _format_number(number: float) -> str:
    """Return a number with four digits that count, such as 0.01473; a whole number as it is."""
    return f"{number:.0f}" if float(number).is_integer() and abs(number) < 1e15 else f"{number:.4g}"

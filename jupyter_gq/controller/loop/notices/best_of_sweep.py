"""The best job of a sweep, by the numbers that its jobs have brought back. Pure.

The rules are those by which JupyterLab names the best job. See docs/decisions/0250-name-the-best-job-in-mails.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.store.protocol import Record

#: The numbers that a job has brought back, by the names of the variables, in their order.
Numbers = Mapping[str, float]

#: How JupyterLab rounds: to four digits that count, halves upwards.
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_HALF_UP)


def describe_best(jobs: Sequence[Record], brought_back: Iterable[Numbers]) -> str:
    """Return a sentence that names the best job with its number; "" if no job has brought one back.

    The jobs are compared by the number that their sweep names, else by the first one that a job has brought back. Of
    equal jobs, the first one is the best. Of the numbers of each job, which users may forge, only one is kept.
    """
    metric = next((job.detail.group_metric for job in jobs if job.detail.group_metric), "")
    compared: list[tuple[float, Record]] = []
    for job, numbers in zip(jobs, brought_back, strict=True):
        metric = metric or next(iter(numbers), "")
        if metric in numbers:
            compared.append((numbers[metric], job))
    if not compared:
        return ""
    choose = min if compared[0][1].detail.group_mode == "min" else max
    number, best = choose(compared, key=lambda each: each[0])
    return f"Best: {metric} {_format_number(number)} in {quoted(best.workload.name)}."


def _format_number(number: float) -> str:
    """Return a number as JupyterLab shows it: with four digits that count, such as 0.01473; a whole number as it is."""
    shown = number if number.is_integer() else float(_FOUR_DIGITS.create_decimal(number))
    digits = Decimal(repr(shown + 0.0)).normalize()  # no zero has a sign
    return f"{digits:f}" if shown == 0 or 1e-6 <= abs(shown) < 1e21 else f"{digits:e}"

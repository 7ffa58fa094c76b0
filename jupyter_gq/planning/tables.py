"""The figures of a replay as tables of text."""

from collections.abc import Callable, Mapping

from jupyter_gq.domain.amount import MilliGpu, format_gpus
from jupyter_gq.simulation.figures import Figures, ReplayResult

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def totals(outcomes: Mapping[str, ReplayResult]) -> list[str]:
    """Return the lines of a table with the figures of all jobs, with a column for each policy."""
    rows: dict[str, Callable[[ReplayResult], str]] = {
        "GPUs": lambda o: format_gpus(o.milli),
        "used": lambda o: f"{o.used_percent:.1f} %",
        "wait, mean": lambda o: time(o.total.mean_wait),
        "wait, half of the jobs up to": lambda o: time(o.total.median_wait),
        "wait, 95 of 100 up to": lambda o: time(o.total.p95_wait),
        "completion, mean": lambda o: time(o.total.mean_completion),
        "preemptions": lambda o: f"{o.total.preemptions:,}",
        "GPU-hours lost": lambda o: f"{o.total.lost_gpu_hours:,.1f} ({o.total.lost_percent:.2f} %)",
        "guarantee kept, 99 of 100 within": lambda o: time(o.total.guarantee_p99),
    }
    table = [["", *outcomes], *([name, *(cell(o) for o in outcomes.values())] for name, cell in rows.items())]
    return _table(table)


def by_queue(
    ours: ReplayResult, theirs: ReplayResult, guarantees: Mapping[str, MilliGpu], quotas: Mapping[str, MilliGpu]
) -> list[str]:
    """Return the lines of a table with a row for each queue and one for all.

    The figures are those under guaranteed quotas (`ours`), with the mean wait under static ones (`theirs`) beside them.
    """
    header = ["queue", "guarantee", "jobs", "wait, mean", "95 of 100", "completion", "paused", "lost GPU h", "kept in"]
    table = [[*header, "static: quota", "wait, mean"]]
    for name in sorted(quotas, key=lambda name: (-quotas[name], name)):
        mine = ours.by_queue[name]
        static_quota = [format_gpus(quotas[name]), time(theirs.by_queue[name].mean_wait)]
        table.append([name, format_gpus(guarantees[name]), f"{mine.jobs:,}", *_cells(mine), *static_quota])
    total = ["all", format_gpus(ours.milli), f"{ours.total.jobs:,}", *_cells(ours.total)]
    table.append([*total, format_gpus(theirs.milli), time(theirs.total.mean_wait)])
    return _table(table)


def _cells(figures: Figures) -> list[str]:
    """Return the cells of one row, from the mean wait to the time within which the guarantee was kept."""
    return [
        time(figures.mean_wait),
        time(figures.p95_wait),
        time(figures.mean_completion),
        f"{figures.preemptions:,}",
        f"{figures.lost_gpu_hours:,.1f}",
        time(figures.guarantee_p99),
    ]


def _table(rows: list[list[str]]) -> list[str]:
    """Return the rows as lines of equal columns: the first column flush left, the others flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def time(seconds: float) -> str:
    """Return a duration in words, such as "90 s", "2.5 h", "3.0 days".

    The unit is seconds below 5 minutes, minutes below 3 hours, hours below 2 days, and days from there on.
    """
    for most, unit, name in ((5 * _MINUTE, 1, "s"), (3 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h")):
        if seconds < most:
            return f"{seconds / unit:.{1 if unit > 1 and seconds < 10 * unit else 0}f} {name}"
    return f"{seconds / _DAY:.1f} days"

"""The figures of a replay as tables of text."""

from collections.abc import Callable, Mapping

from jupyter_gq.commands.printing.tables import format_duration, format_table
from jupyter_gq.domain.amount import MilliGpu, format_gpus
from jupyter_gq.simulation.figures import Figures, ReplayResult


def totals(outcomes: Mapping[str, ReplayResult]) -> list[str]:
    """Return the lines of a table with the figures of all jobs, with a column for each policy."""
    rows: dict[str, Callable[[ReplayResult], str]] = {
        "GPUs": lambda o: format_gpus(o.milli),
        "used": lambda o: f"{o.used_percent:.1f} %",
        "wait, mean": lambda o: format_duration(o.total.mean_wait),
        "wait, half of the jobs up to": lambda o: format_duration(o.total.median_wait),
        "wait, 95 of 100 up to": lambda o: format_duration(o.total.p95_wait),
        "completion, mean": lambda o: format_duration(o.total.mean_completion),
        "preemptions": lambda o: f"{o.total.preemptions:,}",
        "GPU-hours lost": lambda o: f"{o.total.lost_gpu_hours:,.1f} ({o.total.lost_percent:.2f} %)",
        "guarantee kept, 99 of 100 within": lambda o: format_duration(o.total.guarantee_p99),
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
        static_quota = [format_gpus(quotas[name]), format_duration(theirs.by_queue[name].mean_wait)]
        table.append([name, format_gpus(guarantees[name]), f"{mine.jobs:,}", *_cells(mine), *static_quota])
    total = ["all", format_gpus(ours.milli), f"{ours.total.jobs:,}", *_cells(ours.total)]
    table.append([*total, format_gpus(theirs.milli), format_duration(theirs.total.mean_wait)])
    return _table(table)


def _cells(figures: Figures) -> list[str]:
    """Return the cells of one row, from the mean wait to the time within which the guarantee was kept."""
    return [
        format_duration(figures.mean_wait),
        format_duration(figures.p95_wait),
        format_duration(figures.mean_completion),
        f"{figures.preemptions:,}",
        f"{figures.lost_gpu_hours:,.1f}",
        format_duration(figures.guarantee_p99),
    ]


def _table(rows: list[list[str]]) -> list[str]:
    """Return the rows as indented lines of equal columns: the first column flush left, the others flush right."""
    return [f"  {line}" for line in format_table(rows, range(1, len(rows[0])))]

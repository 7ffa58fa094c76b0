"""`jupyter-gq simulate`: replay a trace on so many GPUs, beside what static quotas would have given."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jupyter_gq.domain.amount import MilliGpu, Seconds, format_gpus
from jupyter_gq.scheduling.policy import Placement, Policy
from jupyter_gq.simulation.experiment import (
    Pool,
    Runnable,
    Settings,
    guaranteed,
    pooled,
    runnable,
    static,
)
from jupyter_gq.simulation.figures import Figures, Outcome
from jupyter_gq.simulation.replay import Costs, Watch
from jupyter_gq.simulation.trace import scaled

from .files import Refusal, counted
from .progress import Progress
from .traces import Workload, read_workload

GUARANTEED = "guaranteed quotas"
STATIC = "static quotas"
STATIC_BACKFILL = "static, backfill"
ONE_LINE = "one line (FIFO)"
_INTERRUPTED = 130
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `jupyter-gq simulate`."""
    parser.add_argument("trace", type=Path, metavar="TRACE", help="jobs, as .csv or .csv.gz")
    parser.add_argument(
        "--quota", type=Path, required=True, metavar="FILE", help="queue,guaranteed_gpus; scaled to the pool"
    )
    parser.add_argument("--gpus", type=_count, required=True, metavar="N", help="GPUs of the pool")
    parser.add_argument(
        "--nodes-of", type=_count, default=8, metavar="N", help="GPUs of each node (default: %(default)s)"
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help=f"placement: {', '.join(Placement)} (default: {Policy().placement}, "
        f"and {Policy().fraction_placement} for fractions of a GPU)",
    )
    parser.add_argument(
        "--lost-per-pause",
        type=_seconds,
        default=Costs().lost_per_pause,
        metavar="SECONDS",
        help="progress that a pause destroys (default: %(default)g)",
    )
    parser.add_argument(
        "--compare", action="store_true", help="also static quotas with backfill, and one line for everybody"
    )
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="draw allocation and waiting by queue over time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Replay and print; 130 when interrupted."""
    try:
        return _simulate(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted: nothing was written.", file=sys.stderr)
        return _INTERRUPTED


def _simulate(arguments: argparse.Namespace) -> int:
    policy = Policy() if arguments.policy is None else _placed_by(arguments.policy)
    for file in (arguments.plot, arguments.json):
        if file is not None and not file.parent.is_dir():
            raise Refusal(f"{file} cannot be written: there is no folder {file.parent}.")
    workload = read_workload(arguments.trace, arguments.quota)
    pool = Pool(gpus=arguments.gpus, per_node=arguments.nodes_of)
    found = runnable(workload.jobs, workload.quotas, pool)
    if not found.jobs:
        raise Refusal(f"No job of {arguments.trace} fits on {_gpus(pool.milli)} in nodes of {pool.per_node}.")
    settings = Settings(policy=policy, costs=Costs(lost_per_pause=arguments.lost_per_pause))
    comparison = _Comparison(workload=workload, runnable=found, pool=pool, settings=settings)
    outcomes = comparison.outcomes(everything=arguments.compare)
    print(_report(arguments, comparison, outcomes))
    if arguments.json:
        _write(arguments.json, json.dumps(_document(comparison, outcomes), indent=1) + "\n")
    if arguments.plot:
        from .picture import draw  # matplotlib takes a second to load

        try:
            draw(arguments.plot, outcomes[GUARANTEED], comparison.guarantees, outcomes[STATIC])
        except (OSError, ValueError) as error:
            raise Refusal(f"{arguments.plot} cannot be drawn: {error}.") from None
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    workload: Workload
    runnable: Runnable
    pool: Pool
    settings: Settings

    @property
    def guarantees(self) -> dict[str, MilliGpu]:
        return scaled(self.workload.quotas, self.pool.milli)

    @property
    def placement(self) -> str:
        policy = self.settings.policy
        return policy.placement + (f" and {policy.fraction_placement}" if policy.fraction_placement else "")

    def outcomes(self, *, everything: bool) -> dict[str, Outcome]:
        jobs, quotas, pool = self.runnable.jobs, self.workload.quotas, self.pool
        runs: dict[str, Callable[[Watch], Outcome]] = {
            GUARANTEED: lambda watch: guaranteed(jobs, quotas, pool, self.settings, watch),
            STATIC: lambda watch: static(jobs, quotas, watch=watch),
        }
        if everything:
            runs[STATIC_BACKFILL] = lambda watch: static(jobs, quotas, backfill=True, watch=watch)
            runs[ONE_LINE] = lambda watch: pooled(jobs, quotas, pool, watch=watch)
        found: dict[str, Outcome] = {}
        for name, play in runs.items():
            progress = Progress(name)
            try:
                found[name] = play(progress)
            finally:
                progress.clear()
        return found


def _report(arguments: argparse.Namespace, comparison: _Comparison, outcomes: Mapping[str, Outcome]) -> str:
    first = outcomes[GUARANTEED]
    lines = [
        f"{arguments.trace.name}: {counted(first.total.jobs, 'job')} of "
        f"{counted(len(comparison.workload.quotas), 'queue')} over {_time(first.end - first.start)}, "
        f"on {_gpus(first.milli)} in nodes of {comparison.pool.per_node}, placement {comparison.placement}",
        *(f"  left out: {text}" for text in _left_out(comparison)),
        "",
        *_totals(outcomes),
        "",
        *_by_queue(comparison, outcomes),
    ]
    return "\n".join(lines)


def _left_out(comparison: _Comparison) -> list[str]:
    texts = []
    without, found = comparison.workload.without_quota, comparison.runnable
    if without:
        names = ", ".join(sorted(without)[:5]) + (", ..." if len(without) > 5 else "")
        number = sum(without.values())
        texts.append(f"{counted(number, 'job')} of {counted(len(without), 'queue')} without a quota ({names})")
    if found.above_pool:
        texts.append(f"{counted(found.above_pool, 'job')} that would not fit on the empty pool")
    if found.above_quota:
        texts.append(f"{counted(found.above_quota, 'job')} above the whole static quota of the queue")
    return texts


def _totals(outcomes: Mapping[str, Outcome]) -> list[str]:
    rows: dict[str, Callable[[Outcome], str]] = {
        "GPUs": lambda o: format_gpus(o.milli),
        "used": lambda o: f"{o.used_percent:.1f} %",
        "wait, mean": lambda o: _time(o.total.mean_wait),
        "wait, half of the jobs up to": lambda o: _time(o.total.median_wait),
        "wait, 95 of 100 up to": lambda o: _time(o.total.p95_wait),
        "completion, mean": lambda o: _time(o.total.mean_completion),
        "preemptions": lambda o: f"{o.total.preemptions:,}",
        "GPU-hours lost": lambda o: f"{o.total.lost_gpu_hours:,.1f} ({o.total.lost_percent:.2f} %)",
        "guarantee kept, 99 of 100 within": lambda o: _time(o.total.guarantee_p99),
    }
    table = [["", *outcomes], *([name, *(cell(o) for o in outcomes.values())] for name, cell in rows.items())]
    return _table(table)


def _by_queue(comparison: _Comparison, outcomes: Mapping[str, Outcome]) -> list[str]:
    ours, theirs = outcomes[GUARANTEED], outcomes[STATIC]
    header = ["queue", "guarantee", "jobs", "wait, mean", "95 of 100", "completion", "paused", "lost GPU h", "kept in"]
    table = [[*header, "static: quota", "wait, mean"]]
    guarantees, quotas = comparison.guarantees, comparison.workload.quotas
    for name in sorted(quotas, key=lambda name: (-quotas[name], name)):
        mine = ours.by_queue[name]
        static_quota = [format_gpus(quotas[name]), _time(theirs.by_queue[name].mean_wait)]
        table.append([name, format_gpus(guarantees[name]), f"{mine.jobs:,}", *_cells(mine), *static_quota])
    total = ["all", format_gpus(ours.milli), f"{ours.total.jobs:,}", *_cells(ours.total)]
    table.append([*total, format_gpus(theirs.milli), _time(theirs.total.mean_wait)])
    return _table(table)


def _cells(figures: Figures) -> list[str]:
    return [
        _time(figures.mean_wait),
        _time(figures.p95_wait),
        _time(figures.mean_completion),
        f"{figures.preemptions:,}",
        f"{figures.lost_gpu_hours:,.1f}",
        _time(figures.guarantee_p99),
    ]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _document(comparison: _Comparison, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    found = comparison.runnable
    return {
        "gpus": comparison.pool.gpus,
        "nodes_of": comparison.pool.per_node,
        "placement": comparison.placement,
        "lost_per_pause_s": comparison.settings.costs.lost_per_pause,
        "left_out": {
            "without_quota": sum(comparison.workload.without_quota.values()),
            "above_pool": found.above_pool,
            "above_static_quota": found.above_quota,
        },
        "policies": {name: _outcome(outcome) for name, outcome in outcomes.items()},
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "gpus": outcome.milli / 1000,
        "start_s": outcome.start,
        "end_s": outcome.end,
        "used_percent": outcome.used_percent,
        **_figures(outcome.total),
        "queues": {name: _figures(figures) for name, figures in outcome.by_queue.items()},
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {**asdict(figures), "lost_percent": figures.lost_percent}


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise Refusal(f"{file} cannot be written: {error.strerror}.") from None


def _placed_by(name: str) -> Policy:
    """Whole GPUs and fractions alike."""
    try:
        return Policy(placement=Placement(name), fraction_placement=None)
    except ValueError:
        raise Refusal(f"--policy {name!r}: there is no such placement; expected {', '.join(Placement)}.") from None


def _gpus(milli: int) -> str:
    return f"{format_gpus(milli)} GPU{'' if milli == 1000 else 's'}"


def _time(seconds: float) -> str:
    for most, unit, name in ((5 * _MINUTE, 1, "s"), (3 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h")):
        if seconds < most:
            return f"{seconds / unit:.{1 if unit > 1 and seconds < 10 * unit else 0}f} {name}"
    return f"{seconds / _DAY:.1f} days"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000000")
    return int(text)


def _seconds(text: str) -> Seconds:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return Seconds(number)

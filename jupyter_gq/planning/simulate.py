"""`jupyter-gq simulate`: replay a trace on a given number of GPUs, and compare with static quotas."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from jupyter_gq.commands.printing.tables import format_duration
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.amount import MiB, MilliCpu, MilliGpu, Seconds, parse_cpus, parse_memory
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.scheduling.wording import describe_cores, describe_gpus, describe_memory
from jupyter_gq.simulation.experiment import (
    ExperimentSettings,
    Pool,
    Runnable,
    as_counted,
    guaranteed,
    pooled,
    runnable,
    static,
)
from jupyter_gq.simulation.figures import Figures, ReplayResult
from jupyter_gq.simulation.replay import Costs, Watch
from jupyter_gq.simulation.trace import scaled

from .files import counted
from .progress import ProgressLine
from .tables import by_queue, totals
from .traces import TraceSetup, read_trace_setup

GUARANTEED = "guaranteed quotas"
STATIC = "static quotas"
STATIC_BACKFILL = "static, backfill"
ONE_LINE = "one line (FIFO)"
_INTERRUPTED = 130
_Amount = TypeVar("_Amount")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq simulate`."""
    parser.add_argument("trace", type=Path, metavar="TRACE", help="file of jobs, as .csv or .csv.gz")
    parser.add_argument(
        "--quota",
        type=Path,
        required=True,
        metavar="FILE",
        help="file with the columns queue and guaranteed_gpus, scaled to the pool",
    )
    parser.add_argument("--gpus", type=_count, required=True, metavar="N", help="GPUs of the pool")
    parser.add_argument(
        "--nodes-of", type=_count, default=8, metavar="N", help="GPUs of each node (default: %(default)s)"
    )
    parser.add_argument("--node-cpus", type=_cpus, metavar="N", help="CPU cores of each node (default: not counted)")
    parser.add_argument(
        "--node-memory",
        type=_memory,
        metavar="TEXT",
        help='memory of each node, such as "512 GiB" (default: not counted)',
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help=f"placement: {', '.join(PlacementStrategy)} (default: {Policy().placement}, "
        f"and {Policy().fraction_placement} for fractions of a GPU)",
    )
    parser.add_argument(
        "--lost-per-pause",
        type=_seconds,
        default=Costs().lost_per_pause,
        metavar="SECONDS",
        help="progress that a job loses by a pause (default: %(default)g)",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also replay with static quotas and backfill, and with one queue for everybody",
    )
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="draw allocation and waiting by queue over time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Replay the trace, print the comparison, write the files asked for, and return 0; 130 if interrupted.

    Raises `CommandRefused` if an option or a file cannot be used.
    """
    try:
        return _simulate(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted: nothing was written.", file=sys.stderr)
        return _INTERRUPTED


def _simulate(arguments: argparse.Namespace) -> int:
    """Replay the trace, print the comparison, write the files that were asked for, and return 0.

    Raises `CommandRefused` if an option or a file cannot be used.
    """
    policy = Policy() if arguments.policy is None else _placed_by(arguments.policy)
    if arguments.plot and find_spec("matplotlib") is None:
        raise CommandRefused("--plot needs matplotlib. Install it with: pip install matplotlib")
    for file in (arguments.plot, arguments.json):
        if file is not None and not file.parent.is_dir():
            raise CommandRefused(f"{file} cannot be written: there is no folder {file.parent}.")
    workload = read_trace_setup(arguments.trace, arguments.quota)
    pool = Pool(
        gpus=arguments.gpus,
        per_node=arguments.nodes_of,
        node_cpus=arguments.node_cpus,
        node_memory=arguments.node_memory,
    )
    found = runnable(as_counted(workload.jobs, pool), workload.quotas, pool)
    if not found.jobs:
        raise CommandRefused(f"No job of {arguments.trace} fits on {_what(pool)}.")
    settings = ExperimentSettings(policy=policy, costs=Costs(lost_per_pause=arguments.lost_per_pause))
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
            raise CommandRefused(f"{arguments.plot} cannot be drawn: {error}.") from None
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """The inputs that all replays of one comparison share."""

    workload: TraceSetup
    runnable: Runnable
    pool: Pool
    settings: ExperimentSettings

    @property
    def guarantees(self) -> dict[str, MilliGpu]:
        """The quotas in milli-GPU, scaled to the pool."""
        return scaled(self.workload.quotas, self.pool.milli)

    @property
    def placement(self) -> str:
        """The names of the placement strategies, as a phrase."""
        policy = self.settings.policy
        return policy.placement + (f" and {policy.fraction_placement}" if policy.fraction_placement else "")

    def outcomes(self, *, everything: bool) -> dict[str, ReplayResult]:
        """Run the replays and return the results by name of the policy; `everything`: with the additional baselines.

        A progress line is shown meanwhile.
        """
        jobs, quotas, pool = self.runnable.jobs, self.workload.quotas, self.pool
        runs: dict[str, Callable[[Watch], ReplayResult]] = {
            GUARANTEED: lambda watch: guaranteed(jobs, quotas, pool, self.settings, watch),
            STATIC: lambda watch: static(jobs, quotas, watch=watch),
        }
        if everything:
            runs[STATIC_BACKFILL] = lambda watch: static(jobs, quotas, backfill=True, watch=watch)
            runs[ONE_LINE] = lambda watch: pooled(jobs, quotas, pool, watch=watch)
        found: dict[str, ReplayResult] = {}
        for name, play in runs.items():
            progress = ProgressLine(name)
            try:
                found[name] = play(progress)
            finally:
                progress.clear()
        return found


def _report(arguments: argparse.Namespace, comparison: _Comparison, outcomes: Mapping[str, ReplayResult]) -> str:
    """Return the text of the comparison: a heading with notes, a table of all policies, and a table of queues."""
    first = outcomes[GUARANTEED]
    lines = [
        f"{arguments.trace.name}: {counted(first.total.jobs, 'job')} of "
        f"{counted(len(comparison.workload.quotas), 'queue')} over {format_duration(first.end - first.start)}, "
        f"on {_what(comparison.pool)}, placement {comparison.placement}",
        *(f"  left out: {text}" for text in _left_out(comparison)),
        *(f"  not counted: {text}" for text in _not_counted(comparison)),
        "",
        *totals(outcomes),
        "",
        *by_queue(first, outcomes[STATIC], comparison.guarantees, comparison.workload.quotas),
    ]
    return "\n".join(lines)


def _left_out(comparison: _Comparison) -> list[str]:
    """Return a note with number and reason for each kind of jobs that were left out."""
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


def _not_counted(comparison: _Comparison) -> list[str]:
    """Return notes on CPU and memory that jobs name and the pool does not count, or the other way round."""
    texts = []
    pool, requests = comparison.pool, [job.request for job in comparison.workload.jobs]
    for word, option, there, asked in (
        ("CPU", "--node-cpus", pool.node_cpus, any(request.cpu_milli for request in requests)),
        ("memory", "--node-memory", pool.node_memory, any(request.memory for request in requests)),
    ):
        if asked and there is None:
            texts.append(f"the {word} that jobs need; say how much each node has with {option}")
        if there is not None and not asked:
            texts.append(f"{option}: no job says how much {word} it needs")
    return texts


def _document(comparison: _Comparison, outcomes: Mapping[str, ReplayResult]) -> JsonObject:
    """Return the settings and the figures of the comparison as a JSON object."""
    found = comparison.runnable
    return {
        "gpus": comparison.pool.gpus,
        "nodes_of": comparison.pool.per_node,
        "node_cpus": None if comparison.pool.node_cpus is None else comparison.pool.node_cpus / 1000,
        "node_memory_mib": comparison.pool.node_memory,
        "placement": comparison.placement,
        "lost_per_pause_s": comparison.settings.costs.lost_per_pause,
        "left_out": {
            "without_quota": sum(comparison.workload.without_quota.values()),
            "above_pool": found.above_pool,
            "above_static_quota": found.above_quota,
        },
        "policies": {name: _outcome(outcome) for name, outcome in outcomes.items()},
    }


def _outcome(outcome: ReplayResult) -> JsonObject:
    """Return one result as a JSON object."""
    return {
        "gpus": outcome.milli / 1000,
        "start_s": outcome.start,
        "end_s": outcome.end,
        "used_percent": outcome.used_percent,
        **_figures(outcome.total),
        "queues": {name: _figures(figures) for name, figures in outcome.by_queue.items()},
    }


def _figures(figures: Figures) -> JsonObject:
    """Return the figures, with the lost percentage, as a JSON object."""
    return {**asdict(figures), "lost_percent": figures.lost_percent}


def _write(file: Path, text: str) -> None:
    """Write the text to a file; raise `CommandRefused` if that fails."""
    try:
        file.write_text(text)
    except OSError as error:
        raise CommandRefused(f"{file} cannot be written: {error.strerror}.") from None


def _placed_by(name: str) -> Policy:
    """Return a policy with the placement of that name for whole GPUs and for fractions.

    Raises `CommandRefused` if there is no such placement.
    """
    try:
        return Policy(placement=PlacementStrategy(name), fraction_placement=None)
    except ValueError:
        raise CommandRefused(
            f"--policy {quoted(name)}: there is no such placement; expected {', '.join(PlacementStrategy)}."
        ) from None


def _what(pool: Pool) -> str:
    """Return a phrase such as "24 GPUs in nodes of 8 with 64 CPU cores and 512 GiB"."""
    beside = [] if pool.node_cpus is None else [describe_cores(pool.node_cpus)]
    if pool.node_memory is not None:
        beside.append(describe_memory(pool.node_memory))
    with_host = f" with {' and '.join(beside)}" if beside else ""
    return f"{describe_gpus(pool.milli)} in nodes of {pool.per_node}{with_host}"


def _cpus(text: str) -> MilliCpu:
    return _amount(parse_cpus, text)


def _memory(text: str) -> MiB:
    return _amount(parse_memory, text)


def _amount(parse: Callable[[str], _Amount], text: str) -> _Amount:
    """Return the result of `parse` for the text of an option; raise `ArgumentTypeError` if it is no amount."""
    try:
        return parse(text)
    except InvalidAmount as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    """Return the text of an option as a whole number from 1 to 1,000,000; raise `ArgumentTypeError` for other text."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number from 1 to 1000000")
    return int(text)


def _seconds(text: str) -> Seconds:
    """Return the text of an option as seconds, 0 or more; raise `ArgumentTypeError` for other text."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number of seconds, 0 or more")
    return Seconds(number)

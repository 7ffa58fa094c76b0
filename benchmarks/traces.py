"""The options that the benchmarks on traces share."""

import argparse
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.errors import AdminError
from jupyter_gq.planning.traces import TraceSetup, read_trace, read_trace_setup
from jupyter_gq.simulation.trace import TraceJob

#: Of a pool for a trace without quotas, so much would be used on average if nobody ever waited.
LOAD = 0.85


def add_trace_options(options: argparse.ArgumentParser, *, quota_needed: bool = True) -> None:
    """Which trace, which quotas, how large a pool."""
    options.add_argument("--trace", type=Path, required=True, help="trace file, see `jupyter-gq simulate --help`")
    without = "" if quota_needed else f" (default: what each queue uses on average, in a pool that is {LOAD:.0%} used)"
    options.add_argument("--quota", type=Path, required=quota_needed, help=f"quota file of its queues{without}")
    options.add_argument("--gpus", type=int, help="size of the pool (default: three quarters of the quotas of a file)")


def read(arguments: argparse.Namespace) -> tuple[TraceSetup, int]:
    """The jobs of queues with a quota, and the size of the pool; ends the program where a file is wrong."""
    try:
        if arguments.quota is None:
            jobs = read_trace(arguments.trace)
            workload, part = TraceSetup(jobs=tuple(jobs), quotas=mean_use(jobs), without_quota={}), Fraction(1)
        else:
            workload, part = read_trace_setup(arguments.trace, arguments.quota, strict=False), Fraction(3, 4)
    except AdminError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    return workload, arguments.gpus if arguments.gpus is not None else int(sum(workload.quotas.values()) * part) // 1000


def mean_use(jobs: Sequence[TraceJob]) -> dict[str, MilliGpu]:
    """What each queue would use on average if nobody waited, in whole GPUs, divided by `LOAD`."""
    span = max(job.submitted + job.duration for job in jobs) - min(job.submitted for job in jobs)
    used: dict[str, float] = {}
    for job in jobs:
        used[job.queue] = used.get(job.queue, 0.0) + job.milli * job.duration
    return {name: MilliGpu(1000 * max(1, math.ceil(used[name] / span / LOAD / 1000))) for name in sorted(used)}

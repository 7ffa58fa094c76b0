"""`python -m tests.soak`: a soak run by hand; `make soak` calls this."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from pathlib import Path

from .plan import Plan
from .report import Report
from .soak import soak


def main() -> int:
    """Run as the arguments say, print the report, and return 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--users", type=int, default=60)
    parser.add_argument("--jobs", type=int, help="default: ten for each minute")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--place", choices=("machine", "cluster"), default="machine")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--troubles", default="", help="names with commas between them; default: all")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(prefix=f"gq-soak-{seed}-"))
    plan = Plan(
        folder=folder,
        seed=seed,
        minutes=arguments.minutes,
        users=arguments.users,
        jobs=round(arguments.minutes * 10) if arguments.jobs is None else arguments.jobs,
        place=arguments.place,
        database="postgresql" if arguments.place == "cluster" else arguments.database,
        troubles=tuple(filter(None, arguments.troubles.split(","))),
    )
    print(f"SEED={seed}; the logs and the report are in {folder}", flush=True)
    report = asyncio.run(_run(plan))
    print(report.describe())
    print(f"SEED={seed}; the logs and the report are in {folder}")
    return 1 if report.faults else 0


async def _run(plan: Plan) -> Report:
    """Run the plan; SIGTERM ends it with all its processes, as Ctrl-C does."""
    run = asyncio.ensure_future(soak(plan))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, run.cancel)
    return await run


if __name__ == "__main__":
    sys.exit(main())

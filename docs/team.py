"""The example of "How many GPUs do we need?": a made-up month of a team, and its picture.

`python -m docs.team` writes docs/examples/team-jobs.csv and team-quota.csv, always the same ones, and
docs/images/simulate.png, which `jupyter-gq simulate` draws of them.
"""

import csv
import math
import random
import sys
from pathlib import Path

from jupyter_gq.app import main as jupyter_gq
from jupyter_gq.planning.traces import TRACE_COLUMNS

EXAMPLES = Path(__file__).parent / "examples"
JOBS, QUOTA = EXAMPLES / "team-jobs.csv", EXAMPLES / "team-quota.csv"
PICTURE = Path(__file__).parent / "images" / "simulate.png"
GPUS = 24
_SEED = 7
_DAYS = 28
#: Guaranteed GPUs, users, GPUs of a job with their odds, median hours, and the campaigns: (day, days, jobs a day).
_QUEUES = {
    "vision": (16, ("ann", "carol"), {1: 6, 2: 3, 4: 2, 8: 1}, 3.0, ((0, 28, 12), (8, 4, 24))),
    "nlp": (16, ("bob", "dan"), {1: 2, 4: 3, 8: 3}, 5.0, ((2, 5, 11), (16, 6, 13))),
    "speech": (8, ("eve",), {0.5: 5, 1: 4, 2: 2}, 2.0, ((0, 28, 9), (21, 3, 40))),
}


def rows() -> list[list[str]]:
    """Return the jobs, in the order of submission."""
    chance = random.Random(_SEED)  # noqa: S311 (an example, no secret)
    found = []
    for queue, (_, users, sizes, hours, campaigns) in _QUEUES.items():
        for first, days, each_day in campaigns:
            for day in range(first, first + days):
                if day % 7 > 4:
                    continue  # a weekend
                for _ in range(round(chance.gauss(each_day, each_day / 5))):
                    hour = min(max(chance.gauss(13, 3.5), 0), 23.9)
                    gpus = chance.choices(list(sizes), list(sizes.values()))[0]
                    long = min(max(chance.lognormvariate(math.log(hours), 1.0), 0.1), 40.0)
                    submit, duration = round((day * 24 + hour) * 3600), round(long * 3600)
                    found.append((submit, queue, chance.choice(users), duration, gpus))
    found.sort()
    return [
        [f"job-{number:04d}", queue, user, str(submit), str(duration), f"{gpus:g}", "1", "", "train", "DONE"]
        for number, (submit, queue, user, duration, gpus) in enumerate(found)
    ]


def main() -> int:
    """Write the files and the picture."""
    EXAMPLES.mkdir(exist_ok=True)
    with JOBS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*TRACE_COLUMNS, "gpu_type", "kind", "status"])
        writer.writerows(rows())
    with QUOTA.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["queue", "guaranteed_gpus", "source"])
        writer.writerows([queue, quota, "made up"] for queue, (quota, *_) in _QUEUES.items())
    return jupyter_gq(["simulate", str(JOBS), "--quota", str(QUOTA), "--gpus", str(GPUS), "--plot", str(PICTURE)])


if __name__ == "__main__":
    sys.exit(main())

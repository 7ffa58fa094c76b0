"""A short soak run on a cluster: what `make soak PLACE=cluster` does for an hour, for half a minute."""

import asyncio

from tests.kubernetes.conftest import require_programs
from tests.kubernetes.control_plane import PROGRAMS
from tests.soak.plan import Plan
from tests.soak.soak import soak


def test_nothing_is_lost_doubled_or_left_after_half_a_minute_of_troubles(tmp_path):
    require_programs(*PROGRAMS)
    size = {"users": 3, "jobs": 6, "trouble_every": 3.0, "least_troubles": 4}
    plan = Plan(folder=tmp_path / "world", seed=3, minutes=0.5, place="cluster", database="postgresql", **size)
    report = asyncio.run(soak(plan))
    assert report.faults == [], report.describe()
    assert sum(report.ends.values()) == report.jobs_accepted == plan.jobs
    assert sum(report.strikes.values()) >= plan.least_troubles, report.describe()

"""A short soak run: what `make soak` does for an hour, for a minute, with few users and jobs."""

import asyncio

from .plan import Plan
from .soak import soak


def test_nothing_is_lost_doubled_or_left_after_a_minute_of_troubles(tmp_path):
    plan = Plan(folder=tmp_path / "world", seed=7, minutes=1, users=4, jobs=12, trouble_every=3.0, least_troubles=5)
    report = asyncio.run(soak(plan))
    assert report.faults == [], report.describe()
    assert report.jobs_accepted == plan.jobs
    assert sum(report.strikes.values()) >= plan.least_troubles, report.describe()
    assert sum(report.ends.values()) == plan.jobs

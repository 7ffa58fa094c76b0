"""Kernels are answered with what the service knows about the jobs of the user."""

import asyncio

import pytest

from jupyter_gq.client.models import JobList
from jupyter_gq.lab.kernel_requests import KernelRequests


def a_job(name: str, phase: str) -> dict:
    described = {"id": name, "name": "Digits", "owner": "ann", "queue": "vision", "gpus": "1", "tasks": 1}
    return {**described, "priority": 0, "phase": phase, "sentence": "", "submitted_at": 1.0}


class ManyJobs:
    """A service whose jobs take several pages: newer ones have ended, and the oldest one still waits."""

    def __init__(self, ended: int) -> None:
        self.jobs_sent = [*(a_job(f"job-{n}", "done") for n in range(ended)), a_job("job-waits", "waiting")]

    async def jobs(self, limit=None, before=None, group=None):
        ids = [job["id"] for job in self.jobs_sent]
        start = 0 if before is None else ids.index(before) + 1
        page = self.jobs_sent[start : start + (limit or 50)]
        more = start + len(page) < len(ids)
        return JobList.model_validate({"jobs": page, "next": page[-1]["id"] if more else None})


class ConnectedTo:
    """A connection to this service."""

    def __init__(self, service: ManyJobs) -> None:
        self.service = service


@pytest.mark.parametrize("group", [None, "sweep-1"])
def test_a_job_that_waits_is_listed_however_many_newer_ones_have_ended(group) -> None:
    requests = KernelRequests(ConnectedTo(ManyJobs(ended=1100)), watch=None)
    answer = asyncio.run(requests.list_jobs(group))
    assert answer["jobs"][-1]["id"] == "job-waits"
    assert len(answer["jobs"]) == 1101

"""Lists of jobs that are read page by page."""

import asyncio

import pytest

from jupyter_gq.client.connection.job_pages import read_all_jobs
from jupyter_gq.client.models import JobList
from jupyter_gq.client.problems import ServiceError


def test_a_page_that_follows_itself_ends_the_reading():
    asked = []

    async def read(before):
        asked.append(before)
        return JobList(jobs=[], next="job-1")

    with pytest.raises(ServiceError, match=r"The service repeats a page of the list of jobs"):
        asyncio.run(read_all_jobs(read))
    assert asked == [None, "job-1"]

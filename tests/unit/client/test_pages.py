"""Lists of jobs that are read page by page."""

import asyncio
from types import SimpleNamespace

import pytest

from jupyter_gq.client.connection.pages import read_all_jobs, read_all_notebooks
from jupyter_gq.client.models import JobList, NotebookList
from jupyter_gq.client.problems import ServiceError


def test_a_page_that_follows_itself_ends_the_reading():
    asked = []

    async def read(before):
        asked.append(before)
        return JobList(jobs=[], next="job-1")

    with pytest.raises(ServiceError, match=r"The service repeats a page of the list\."):
        asyncio.run(read_all_jobs(read))
    assert asked == [None, "job-1"]


def test_all_pages_of_notebooks_are_one_list():
    pages = {None: (["nb-3", "nb-2"], "nb-2"), "nb-2": (["nb-1"], None)}

    async def read(before):
        names, following = pages[before]
        return NotebookList.model_construct(notebooks=[SimpleNamespace(id=name) for name in names], next=following)

    found = asyncio.run(read_all_notebooks(read))
    assert ([notebook.id for notebook in found.notebooks], found.next) == (["nb-3", "nb-2", "nb-1"], None)

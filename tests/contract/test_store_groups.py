"""The list of one group of jobs, which every store finds by its exact name."""

import json
from dataclasses import replace

import pytest

from jupyter_gq.store.protocol import PageSize
from jupyter_gq.store.sql import SqlStore

from .test_store import a_record


@pytest.fixture
def store(url):
    opened = SqlStore(url)
    yield opened
    opened.close()


def test_the_list_of_a_group_has_its_jobs_only(store):
    groups = ["a_b", "A_B", "axb", "", 'with "quotes"', "größe", "100%", "a_b", "named a_b"]
    for number, group in enumerate(groups):
        record = a_record(f"j{number}", submitted=number)
        sentence = f'Says "group":"a_b" and {json.dumps(groups)}.'
        store.save([replace(record, detail=replace(record.detail, group=group, sentence=sentence))])
    for group in groups[4:7]:
        assert [record.detail.group for record in store.list(group=group)] == [group]
    assert [record.workload.id for record in store.list(group="a_b")] == ["j7", "j0"]
    pages, before = [], None
    while page := store.list(group="a_b", before=before, page=PageSize(entries=1)):
        pages += [record.workload.id for record in page]
        before = page[-1].workload.id
    assert pages == ["j7", "j0"], "a page without jobs of the group is not the end"
    assert store.list(group="b") == ()

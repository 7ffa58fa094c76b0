"""Records survive going one release forward and back."""

import json

import pytest

from jupyter_gq.store.codec import decode_workload, encode_workload
from tests.builders import a_job, a_notebook


@pytest.mark.parametrize("workload", [a_job("digits", "vision", "2", tasks=3), a_notebook("ann")])
def test_what_is_written_is_read(workload):
    assert decode_workload(encode_workload(workload)) == workload


def test_a_field_of_a_newer_release_is_ignored():
    document = json.loads(encode_workload(a_job("digits", "vision")))
    document["request"]["colour"] = "red"
    assert decode_workload(json.dumps({**document, "mood": "good"})) == a_job("digits", "vision")


def test_a_field_that_an_older_release_did_not_write_has_its_default():
    document = json.loads(encode_workload(a_job("digits", "vision", priority=3)))
    del document["priority"]
    assert decode_workload(json.dumps(document)).priority == 0


def test_a_record_without_what_must_be_there_is_refused_by_name():
    document = json.loads(encode_workload(a_job("digits", "vision")))
    del document["owner"]
    with pytest.raises(ValueError, match="owner"):
        decode_workload(json.dumps(document))

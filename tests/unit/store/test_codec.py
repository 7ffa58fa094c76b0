"""Records survive going one release forward and back."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from jupyter_gq.domain.amount import Instant, MilliGpu, Seconds
from jupyter_gq.domain.workload import Backoff
from jupyter_gq.domain.workload_detail import (
    ENDED,
    CodeError,
    Eviction,
    Place,
    Progress,
    SourceCell,
    Suspension,
    SuspensionRefusal,
    WorkloadDetail,
)
from jupyter_gq.store.codec import (
    decode_detail,
    decode_eviction,
    decode_workload,
    encode_detail,
    encode_eviction,
    encode_workload,
)
from tests.builders import a_job, a_notebook

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize("workload", [a_job("digits", "vision", "2", tasks=3), a_notebook("ann")])
def test_what_is_written_is_read(workload):
    assert decode_workload(encode_workload(workload)) == workload


def test_a_suspension_and_its_refusal_are_read_as_they_were_written():
    suspension = Suspension(sentence="Lent.", by=None, decided_at=Instant(5.0), seconds=Seconds(2))
    refusal = SuspensionRefusal(sentence="No room.", times=2, until=Instant(9.0))
    detail = WorkloadDetail(suspension=suspension, suspension_refusal=refusal)
    assert decode_detail(encode_detail(detail)) == detail


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


JOB = WorkloadDetail(
    sentence="nlp needs its GPU.",
    eviction=Eviction(reason="RECLAIMED", sentence="nlp needs its GPU.", by="nlp", at=Instant(1000200.0)),
    over_quota=MilliGpu(1500),
    place=Place(node="box-1", devices=("GPU-1", "GPU-2", "GPU-3", "GPU-4")),
    backoff=Backoff(times=2, until=Instant(1000260.0), pause=Seconds(40), sentence="The node was full."),
    server="lab",
    notebook_path="train/digits.ipynb",
    cwd="/home/ann/train",
    mode="replay",
    targets=(SourceCell(cell_id="c2", source_hash="ab12", seconds=3.5),),
    prefix=(SourceCell(cell_id="c1", source_hash="cd34"),),
    image="lab@sha256:1",
    progress=Progress(fraction=0.25, text="epoch 1"),
    error=CodeError(ename="ValueError", evalue="bad"),
    task_tokens={1: "ff00"},
    tasks_with_bundle=(0, 1),
    consecutive_losses=2,
)
NOTEBOOK = WorkloadDetail(
    sentence="Its server ended.",
    eviction=Eviction(reason=ENDED, sentence="Its server ended.", by=None, at=Instant(1000600.0)),
    place=Place(node="box-1", devices=("GPU-1",)),
    owner_groups=frozenset({"nlp", "staff"}),
    pid=4711,
    pid_started=1000011.25,
    given_back=True,
    named_devices={"box-1/0": "GPU-1"},
    warning="Your GPU is taken in 60 s.",
)


def test_rows_from_before_details_were_typed_are_read():
    """The rows hold every key that releases with untyped details wrote, for a job and for a notebook."""
    job, notebook = json.loads((DATA / "rows-of-untyped-details.json").read_text())
    assert decode_detail(job["detail"]) == JOB
    assert decode_detail(notebook["detail"]) == NOTEBOOK
    covered = {each.name for each in fields(WorkloadDetail) if getattr(JOB, each.name) or getattr(NOTEBOOK, each.name)}
    later = {"returns", "suspension", "secrets", "group", "group_parallel", "group_metric", "software"}
    later |= {"suspension_refusal", "task_pods", "request_hash", "left_out_cells", "carries_variables", "continue_from"}
    assert covered == {each.name for each in fields(WorkloadDetail)} - {"unknown"} - later


def test_a_release_with_untyped_details_reads_what_is_written_now():
    """The stored names are as before; a field with its default is left out, which those releases read alike."""
    rows = json.loads((DATA / "rows-of-untyped-details.json").read_text())
    for row, detail in zip(rows, (JOB, NOTEBOOK), strict=True):
        before = {key: value for key, value in json.loads(row["detail"]).items() if value not in (None, 0)}
        assert json.loads(encode_detail(detail)) == before


@pytest.mark.parametrize("detail", [WorkloadDetail(), JOB, NOTEBOOK])
def test_a_detail_that_is_written_is_read(detail):
    assert decode_detail(encode_detail(detail)) == detail


def test_an_empty_detail_is_an_empty_document():
    assert encode_detail(WorkloadDetail()) == "{}"


def test_a_key_of_a_newer_release_is_written_back():
    document = {"sentence": "Done.", "mood": {"name": "good"}}
    detail = decode_detail(json.dumps(document))
    assert json.loads(encode_detail(detail)) == document
    assert json.loads(encode_detail(replace(detail, sentence=""))) == {"mood": {"name": "good"}}


def test_a_part_of_a_detail_without_what_must_be_there_is_refused_by_name():
    with pytest.raises(ValueError, match="Backoff lacks until"):
        decode_detail('{"refused": {"times": 1, "pause": 20, "sentence": ""}}')


def test_an_eviction_is_kept_as_a_document():
    assert decode_eviction(encode_eviction(NOTEBOOK.eviction)) == NOTEBOOK.eviction

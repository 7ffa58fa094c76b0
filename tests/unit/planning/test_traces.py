"""Trace and quota files: what is read, and what is said of a wrong line."""

import gzip
from pathlib import Path

import pytest

from jupyter_gq.client.models import JobList, JobSummary
from jupyter_gq.domain.workload import Request
from jupyter_gq.planning.traces import InvalidTrace, read_quotas, read_trace, read_trace_setup

HEADER = "job_id,queue,user,submit_s,duration_s,gpus,num_tasks,gpu_type,kind,status\n"
GOOD = "j1,a,ann,0,60,0.25,1,,train,DONE\n"
QUOTA = 'queue,guaranteed_gpus,source\na,2,"a book, by hand"\n'


@pytest.fixture
def folder(tmp_path):
    def write(trace: str | bytes = HEADER + GOOD, quota: str = QUOTA):
        files = tmp_path / "jobs.csv", tmp_path / "quota.csv"
        files[0].write_bytes(trace if isinstance(trace, bytes) else trace.encode())
        files[1].write_text(quota)
        return files

    return write


def test_a_row_is_a_job(folder):
    trace, _ = folder(HEADER + GOOD + "\n" + "j2,b,,12.5,0,8,4,V100,train,DONE\n")
    first, second = read_trace(trace)
    assert (first.id, first.queue, first.owner, first.submitted, first.duration) == ("j1", "a", "ann", 0, 60)
    assert (first.request, first.tasks) == (Request(devices=1, milli_per_device=250), 1)
    assert (second.submitted, second.request, second.tasks, second.milli) == (12.5, Request(devices=8), 4, 32_000)


def test_gzip_other_columns_and_another_order_are_fine(folder):
    rows = "extra,num_tasks,gpus,duration_s,submit_s,user,queue,job_id\nx,1,1.0,60,5,,a,j1\n"
    trace, _ = folder(b"")
    packed = trace.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + rows.replace("\n", "\r\n").encode()))
    (job,) = read_trace(packed)
    assert (job.id, job.submitted, job.request) == ("j1", 5, Request(devices=1))


def test_cpu_and_memory_of_each_task_are_read_where_the_file_has_them(folder):
    rows = "j1,a,,0,60,1,1,4,512 MiB\nj2,a,,0,60,0,1,0.5,16\nj3,a,,0,60,1,1,,\n"
    trace, _ = folder("job_id,queue,user,submit_s,duration_s,gpus,num_tasks,cpus,memory\n" + rows)
    requests = [job.request for job in read_trace(trace)]
    assert [(each.cpu_milli, each.memory) for each in requests] == [(4000, 512), (500, 16_384), (0, 0)]


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ("four,", "line 2: cpus is 'four': it is not a number; write a number of cores such as 0.5 or 4"),
        ("-1,", "line 2: cpus is '-1': it is negative; use 0 or more cores"),
        (",much", "line 2: memory is 'much': it is not a number; write a number of GiB such as 16"),
    ],
)
def test_a_wrong_cell_of_cpu_or_memory_is_named_with_what_was_expected(folder, cells, sentence):
    header = "job_id,queue,user,submit_s,duration_s,gpus,num_tasks,cpus,memory\n"
    trace, _ = folder(f"{header}j1,a,,0,60,1,1,{cells}\n")
    with pytest.raises(InvalidTrace) as refusal:
        read_trace(trace)
    assert sentence in str(refusal.value)


def test_quotas_are_amounts_of_gpus(folder):
    _, quota = folder(quota=QUOTA + "b,0.5,\n")
    assert read_quotas(quota).milli == {"a": 2000, "b": 500}


def test_rows_of_queues_without_a_quota_are_left_out_and_counted(folder):
    rows = "j2,b,,0,60,1,1,,,\nj3,c,,0,60,1,1,,,\nj4,b,,0,60,1,1,,,\n"
    found = read_trace_setup(*folder(HEADER + GOOD + rows))
    assert [job.id for job in found.jobs] == ["j1"]
    assert found.without_quota == {"b": 2, "c": 1}


def test_a_quota_without_jobs_is_refused_unless_it_may_be(folder):
    files = folder(quota=QUOTA + "x,1,\n")
    with pytest.raises(
        InvalidTrace, match=r"quota.csv, line 3: jobs.csv has no job of the queue 'x'; its queues are a."
    ):
        read_trace_setup(*files)
    assert read_trace_setup(*files, strict=False).quotas == {"a": 2000, "x": 1000}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "j2,a,,-3,60,1,1,,,",
            "line 3: submit_s is '-3': it is negative; expected seconds from the start of the trace",
        ),
        ("j2,a,,3,-60,1,1,,,", "line 3: duration_s is '-60': it is negative; expected seconds, 0 or more"),
        ("j2,a,,soon,60,1,1,,,", "line 3: submit_s is 'soon': it is not a number; expected seconds"),
        ("j2,a,,3,,1,1,,,", "line 3: duration_s is '': it is not a number"),
        ("j2,a,,3,nan,1,1,,,", "line 3: duration_s is 'nan': it is not a finite number"),
        ("j2,a,,3,inf,1,1,,,", "line 3: duration_s is 'inf': it is not a finite number"),
        ("j2,a,,3,60,1.5,1,,,", "line 3: gpus is '1.5': it is neither a fraction of one GPU nor a whole number"),
        ("j2,a,,3,60,many,1,,,", "line 3: gpus is 'many': it is not a number"),
        ("j2,a,,3,60,-1,1,,,", "line 3: gpus is '-1': it is negative"),
        ("j2,a,,3,60,1,0,,,", "line 3: num_tasks is '0': expected a whole number of tasks, 1 or more"),
        ("j2,a,,3,60,1,1.5,,,", "line 3: num_tasks is '1.5': expected a whole number of tasks"),
        (",a,,3,60,1,1,,,", "line 3: job_id is '': it is empty; expected a name"),
        ("j2,,,3,60,1,1,,,", "line 3: queue is '': it is empty; expected a name"),
        ("j1,a,,3,60,1,1,,,", "line 3: job_id is 'j1': line 2 has it already; expected each job once"),
        ("j2,a,,3,60,1", "line 3: it has 6 values; expected 10, one for each column of line 1"),
        ('j2,"a"b,,3,60,1,1,,,', "line 3: ',' expected after '\"'; expected comma-separated values"),
    ],
)
def test_a_wrong_row_is_named_with_what_was_expected(folder, row, sentence):
    trace, _ = folder(HEADER + GOOD + row + "\n")
    with pytest.raises(InvalidTrace) as refusal:
        read_trace(trace)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [
        (
            "queue,gpus\na,1\n",
            "line 1: the column guaranteed_gpus is missing; expected the columns queue,guaranteed_gpus",
        ),
        (QUOTA + "a,1,\n", "line 3: queue is 'a': it has a quota already"),
        (QUOTA + "b,-1,\n", "line 3: guaranteed_gpus is '-1': it is negative"),
        (QUOTA + "b,some,\n", "line 3: guaranteed_gpus is 'some': it is not a number"),
        ("queue,guaranteed_gpus\na,0\n", "no queue has a guaranteed GPU"),
        ("queue,guaranteed_gpus\nz,1\n", "line 2: jobs.csv has no job of the queue 'z'; its queues are a"),
        ("", "line 1: the file is empty; expected the columns queue,guaranteed_gpus"),
        ("queue,guaranteed_gpus\n", "line 2: no rows follow the columns"),
    ],
)
def test_a_wrong_quota_file_is_named_with_what_was_expected(folder, quota, sentence):
    with pytest.raises(InvalidTrace) as refusal:
        read_trace_setup(*folder(quota=quota))
    assert sentence in str(refusal.value)


def test_quotas_of_other_queues_only_are_refused_in_any_case(folder):
    with pytest.raises(InvalidTrace, match=r"names none of the queues of jobs.csv: expected one of a in the column"):
        read_trace_setup(*folder(quota="queue,guaranteed_gpus\nz,1\n"), strict=False)


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (b"", "line 1: the file is empty"),
        (HEADER.encode(), "line 2: no rows follow the columns"),
        (
            HEADER.replace("submit_s,", "").encode(),
            "line 1: the column submit_s is missing; expected the columns job_id,",
        ),
        (b"\x1f\x8b broken", "the gzip data is broken"),
        (gzip.compress(HEADER.encode(), mtime=0)[:-6], "the gzip data is broken"),
        (HEADER.encode() + b"j1,\xff\xfe,,0,1,1,1,,,\n", "line 2: it is not text in UTF-8"),
    ],
    ids=["empty", "no rows", "a column less", "broken gzip", "half a gzip", "no text"],
)
def test_a_damaged_file_is_refused(folder, trace, sentence):
    file, _ = folder(trace)
    with pytest.raises(InvalidTrace) as refusal:
        read_trace(file)
    assert sentence in str(refusal.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidTrace, match=r"cannot be read: No such file or directory; expected a .csv or .csv.gz"):
        read_trace(tmp_path / "none.csv")


def test_a_device_that_never_ends_is_refused():
    with pytest.raises(InvalidTrace, match=r"/dev/zero cannot be read: it is no regular file and no pipe"):
        read_trace(Path("/dev/zero"))


def test_text_that_is_called_gzip_is_refused(tmp_path):
    (tmp_path / "jobs.csv.gz").write_text(HEADER)
    with pytest.raises(InvalidTrace, match="the gzip data is broken"):
        read_trace(tmp_path / "jobs.csv.gz")


def test_the_program_of_how_many_gpus_md_makes_a_trace_of_the_jobs_of_the_service(tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs/how-to/how-many-gpus.md").read_text()
    _, program = page.split("```python\n")
    fields = {"name": "train", "queue": "a", "owner": "ann", "tasks": 2, "sentence": "", "priority": 0}
    fields |= {"gpus": "0.25", "phase": "done", "ran_seconds": 60.5}
    ended = fields | {"submitted_at": 1e9, "started_at": 1e9, "finished_at": 1e9 + 70}
    later = ended | {"submitted_at": 1e9 + 5, "cpus": "0.5", "memory": "16 GiB"}
    running = ended | {"phase": "running", "finished_at": None}
    cancelled = ended | {"phase": "cancelled", "started_at": None}
    jobs = {"r": running, "c": cancelled, "l": later, "e": ended}
    listed = JobList(jobs=[JobSummary.model_validate({"id": name, **of}) for name, of in jobs.items()])
    (tmp_path / "jobs.json").write_text(listed.model_dump_json())
    monkeypatch.chdir(tmp_path)
    exec(program.split("```")[0], {})
    first, second = read_trace(tmp_path / "jobs.csv")
    assert (first.id, first.submitted, first.duration, first.tasks) == ("e", 0, 60.5, 2)
    assert (second.id, second.submitted, second.request.cpu_milli, second.request.memory) == ("l", 5, 500, 16_384)

"""One thing is changed, and all else stays."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.whatif import InvalidChange, changed
from tests.builders import Cluster, a_job


def after(assignment):
    job = a_job("j", "vision", 2)
    job = replace(job, request=replace(job.request, cpu_milli=4000, memory=MiB(1024), models=("H100",)))
    snapshot = Cluster().node("box", 4).queue("vision", 4, cpu_limit=8000).add(job).snapshot()
    (queue,), (job,) = (found := changed(snapshot, Policy(), assignment)[0]).queues, found.workloads
    return queue, job.request


@pytest.mark.parametrize(
    ("assignment", "field", "value"),
    [
        ("queue.vision.quota_cpus=16", "cpu_quota", 16_000),
        ("queue.vision.limit_cpus=none", "cpu_limit", None),
        ("queue.vision.quota_memory=2 GiB", "memory_quota", 2048),
        ("queue.vision.limit_memory=512Mi", "memory_limit", 512),
    ],
)
def test_a_queue_gets_other_bounds_of_cpu_and_memory(assignment, field, value):
    assert getattr(after(assignment)[0], field) == value


def test_other_gpus_leave_the_rest_of_the_request_alone():
    _, request = after("job.j.gpus=0.5")
    assert (request.milli, request.cpu_milli, request.memory, request.models) == (500, 4000, 1024, ("H100",))


def test_a_job_gets_other_cpu_memory_and_model():
    assert after("job.j.cpus=0.5")[1].cpu_milli == 500
    assert after("job.j.memory=3")[1].memory == 3072
    assert after("job.j.gpu_model=A100")[1].models == ("A100",)
    assert after("job.j.gpu_model=none")[1].models == ()


def test_what_is_no_amount_is_refused():
    with pytest.raises(InvalidChange, match=r"job\.j\.cpus cannot be 'four': .* amount of CPU cores"):
        after("job.j.cpus=four")

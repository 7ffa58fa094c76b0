"""The product's own cycle as the policy of a replay."""

from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.simulation.core import Core
from jupyter_gq.simulation.replay import replay
from tests.builders import a_node, a_queue

from .jobs import a_job


def test_a_job_that_moves_goes_on_and_the_one_for_whom_it_moves_starts():
    """When `filler` has ended, `long` and `other` use one GPU each of two nodes; `wide` needs two of one node."""
    nodes = [a_node("m", 2), a_node("n", 2)]
    core = Core(nodes, [a_queue("a", 4)], Policy())
    jobs = [
        a_job("long", 0, 10_000),
        a_job("filler", 1, 1_000),
        a_job("other", 2, 10_000),
        a_job("wide", 1_500, 100, gpus=2),
    ]
    courses = {course.job.id: course for course in replay(jobs, core)}
    assert courses["wide"].runs == [(1_500, 1_600)]
    assert sum(course.pauses for course in courses.values()) == 1
    assert all(course.runs[-1][1] < 12_000 for course in courses.values())

"""Static quotas and one line, by hand.

Queue a has 2 GPUs, b has 1. A 2-GPU job waits behind a 1-GPU job; a small one stands behind it.
"""

from jupyter_gq.simulation.baselines import Fifo, PooledFifo
from jupyter_gq.simulation.replay import replay

from .jobs import a_job, quotas

JOBS = [
    a_job("a1", 0, 100, gpus=1),
    a_job("a2", 10, 100, gpus=2),
    a_job("a3", 20, 30, gpus=1),
    a_job("b1", 0, 10, gpus=1, queue="b"),
    a_job("b2", 5, 10, gpus=1, queue="b"),
]


def starts(policy):
    return {course.job.id: course.runs[0][0] for course in replay(JOBS, policy)}


def test_static_quotas_the_head_of_the_line_blocks_its_queue_only():
    assert starts(Fifo(quotas(a=2, b=1))) == {"a1": 0, "a2": 100, "a3": 200, "b1": 0, "b2": 10}


def test_static_quotas_with_backfill_who_fits_starts():
    assert starts(Fifo(quotas(a=2, b=1), backfill=True)) == {"a1": 0, "a2": 100, "a3": 20, "b1": 0, "b2": 10}


def test_one_line_the_head_blocks_everybody():
    jobs = starts(PooledFifo(3000))
    assert jobs == {"a1": 0, "b1": 0, "b2": 5, "a2": 15, "a3": 100}

"""Each figure, against a trace that is worked out on paper."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import ONE_GPU, MiB, MilliCpu, Seconds
from jupyter_gq.simulation.experiment import ExperimentSettings, Pool, as_counted, guaranteed, pooled, runnable, static
from jupyter_gq.simulation.figures import percentile
from jupyter_gq.simulation.replay import Costs
from jupyter_gq.simulation.trace import in_whole_devices, nodes_of, scaled

from .jobs import a_job, quotas

#: Two queues with one GPU each, on two GPUs. a borrows b's from 0 on; b wants it back at 100.
JOBS = [
    a_job("a1", 0, 600),
    a_job("a2", 10, 600),
    a_job("b1", 100, 200, queue="b"),
]
QUOTAS = quotas(a=1, b=1)


def test_the_product_lends_what_is_idle_and_takes_it_back_for_its_owner():
    """a2 runs 10-100, is paused for b1 (100-300), and has 600 - 90 + 60 = 570 left: 300-870."""
    found = guaranteed(JOBS, QUOTAS, Pool(gpus=2), ExperimentSettings())
    total = found.total
    assert (total.jobs, total.preemptions) == (3, 1)
    assert total.mean_wait == pytest.approx(200 / 3)
    assert (total.median_wait, total.p95_wait) == (0, 200)
    assert total.mean_completion == pytest.approx((600 + 860 + 200) / 3)
    assert total.used_gpu_hours == pytest.approx((600 + 90 + 570 + 200) / 3600)
    assert total.lost_gpu_hours == pytest.approx(60 / 3600)
    assert total.lost_percent == pytest.approx(100 * 60 / 1460)
    assert (found.start, found.end) == (0, 610)
    assert found.used_percent == pytest.approx(100 * (600 + 90 + 310 + 200) / (2 * 610))
    assert (total.guaranteed_starts, total.guarantee_p99) == (2, 0)
    assert found.by_queue["a"].p95_wait == 200
    assert found.by_queue["b"].mean_wait == 0
    assert found.allocated["a"].values == (1000, 2000, 1000, 2000, 1000, 0)
    assert found.allocated["a"].times == (0, 10, 100, 300, 600, 870)
    assert found.waiting["a"].times == (100, 300)


def test_what_a_pause_costs_is_a_setting():
    found = guaranteed(JOBS, QUOTAS, Pool(gpus=2), ExperimentSettings(costs=Costs(lost_per_pause=Seconds(0))))
    assert found.total.lost_gpu_hours == 0
    assert found.allocated["a"].times[-1] == 810


def test_static_quotas_never_lend():
    """a2 waits for a1: 600-1200."""
    found = static(JOBS, QUOTAS)
    assert found.total.mean_wait == pytest.approx(590 / 3)
    assert found.total.preemptions == 0
    assert found.milli == 2000
    assert found.used_percent == pytest.approx(100 * (600 + 10 + 200) / (2 * 610))


def test_in_one_line_the_owner_waits_for_the_borrower():
    """b1 waits from 100 to 600: so long is its guarantee not kept."""
    found = pooled(JOBS, QUOTAS, Pool(gpus=2))
    assert found.by_queue["b"].mean_wait == 500
    assert found.by_queue["b"].guarantee_p99 == 500


def test_a_gang_waits_until_all_of_its_tasks_fit():
    """Two tasks of 2 GPUs on two nodes of 2: it waits for the one GPU that the other job holds until 50."""
    jobs = [a_job("small", 0, 50), a_job("gang", 10, 100, gpus=2, tasks=2)]
    found = guaranteed(jobs, quotas(a=4), Pool(gpus=4, per_node=2), ExperimentSettings())
    assert found.allocated["a"].times == (0, 50, 150)
    assert found.allocated["a"].values == (1000, 4000, 0)
    assert found.total.mean_wait == 20


def test_fractions_share_a_device_but_not_under_static_quotas():
    jobs = [a_job("x", 0, 100, gpus="0.5"), a_job("y", 0, 100, gpus="0.5")]
    assert guaranteed(jobs, quotas(a=1), Pool(gpus=1), ExperimentSettings()).total.mean_wait == 0
    assert static(jobs, quotas(a=1)).total.mean_wait == 50


def test_what_could_never_run_is_sorted_out_and_counted():
    jobs = [
        a_job("fits", 0, 1, gpus=2),
        a_job("gang", 0, 1, gpus=4, tasks=2),
        a_job("wide", 0, 1, gpus=6),
        a_job("above quota", 0, 1, gpus=2, queue="b"),
        a_job("a share of one", 0, 1, gpus="0.5", queue="b"),
    ]
    found = runnable(jobs, quotas(a=8, b=1), Pool(gpus=6, per_node=4))
    assert [job.id for job in found.jobs] == ["fits", "a share of one"]
    assert (found.above_pool, found.above_quota) == (2, 1)


@pytest.mark.parametrize(
    ("gpus", "tasks", "needs", "fits"),
    [
        (1, 6, {"cpu_milli": 16_000}, True),  # 4 on the whole node, 2 on the half one
        (1, 6, {"cpu_milli": 17_000}, False),
        (1, 6, {"memory": MiB(16)}, True),
        (1, 6, {"memory": MiB(17)}, False),
        ("0.5", 12, {"cpu_milli": 8_000}, True),
        ("0.5", 12, {"cpu_milli": 9_000}, False),
        (0, 6, {"cpu_milli": 16_000}, True),
        (0, 7, {"cpu_milli": 16_000}, False),
        (0, 100, {}, True),
    ],
)
def test_a_pool_holds_what_fits_by_gpus_cpu_and_memory(gpus, tasks, needs, fits):
    request = replace(a_job("j", 0, 1, gpus=gpus).request, **needs)
    pool = Pool(gpus=6, per_node=4, node_cpus=MilliCpu(64_000), node_memory=MiB(64))
    assert pool.holds(request, tasks) is fits
    assert Pool(gpus=6, per_node=4).holds(request, tasks) is (gpus == 0 or tasks <= 6 / float(gpus))


def test_what_is_not_counted_is_not_asked_for():
    job = a_job("j", 0, 1)
    job = replace(job, request=replace(job.request, cpu_milli=1000, memory=MiB(8)))
    (cpu_only,) = as_counted([job], Pool(gpus=1, node_cpus=MilliCpu(4000)))
    assert (cpu_only.request.cpu_milli, cpu_only.request.memory) == (1000, 0)
    (neither,) = as_counted([job], Pool(gpus=1))
    assert neither.request == a_job("j", 0, 1).request


def test_quotas_are_scaled_in_proportion_and_add_up():
    assert scaled(quotas(a=16, b=32, c=72), 54_000) == quotas(a="7.2", b="14.4", c="32.4")
    assert scaled(quotas(a=1, b=1, c=1), 1000) == quotas(a="0.334", b="0.333", c="0.333")
    assert scaled(quotas(a=0), 1000) == quotas(a=0)


def test_the_last_node_has_what_is_left():
    assert [len(node.devices) for node in nodes_of(54, 8)] == [8, 8, 8, 8, 8, 8, 6]


def test_whole_devices_leave_whole_devices_alone():
    jobs = [a_job("x", 0, 1, gpus="0.3"), a_job("y", 0, 1, gpus=2)]
    assert [job.milli for job in in_whole_devices(jobs)] == [1000, 2000]


def test_whole_devices_leave_cpu_and_memory_alone():
    job = a_job("x", 0, 1, gpus="0.3")
    job = replace(job, request=replace(job.request, cpu_milli=1000, memory=MiB(8)))
    (whole,) = in_whole_devices([job])
    assert whole.request == replace(job.request, milli_per_device=ONE_GPU)


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (51, 3), (95, 4), (99, 4), (1, 1)])
def test_percentiles_are_values_that_occurred(percent, expected):
    assert percentile([4, 2, 1, 3], percent) == expected


def test_nobody_waited_nothing():
    assert percentile([], 99) == 0
    assert guaranteed([], quotas(a=1), Pool(gpus=1), ExperimentSettings()).total.mean_wait == 0

"""How the work of a cycle grows with the number of suspended notebooks, counted in calls of functions."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from benchmarks import clusters
from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.engine import Scheduler
from jupyter_gq.scheduling.idle.lending import resume_notebooks
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, a_notebook, idle, running

#: Numbers of notebooks. What grows in proportion to them grows fourfold, and what grows with the square, sixteenfold.
FEW, MANY = 32, 128
IN_PROPORTION = 6


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions of the scheduler are called."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and "/scheduling/" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def calls_of_a_cycle(snapshot: Snapshot) -> int:
    scheduler = Scheduler(snapshot, Policy())
    return calls_of(lambda: scheduler.decide(NOW))


def test_a_cycle_grows_in_proportion_to_the_notebooks_that_come_back_at_once():
    few, many = map(clusters.return_of_notebooks, (FEW, MANY))
    assert calls_of_a_cycle(many) < IN_PROPORTION * calls_of_a_cycle(few)


def fixed_jobs_without_room(shapes: int) -> Snapshot:
    """Jobs of so many shapes that may not borrow, while each GPU is lent."""
    cluster = Cluster().node("n", 8).fixed("train", **{f"u{number}": "0.5" for number in range(16)}).queue("q", 8)
    for number in range(16):
        notebook = idle(running(a_notebook(f"u{number}", "0.5", suspendable=True), f"n-{number // 2}"), 4000)
        cluster.add(
            replace(notebook, state=State.SUSPENDED),
            running(a_job(f"b{number}", "z", "0.5", submitted=number), f"n-{number // 2}"),
        )
    for number in range(shapes):
        cluster.add(a_job(f"w{number}", "q", 1, preemptible=False, priority=number))
    return cluster.queue("z", 0).snapshot()


def test_no_victims_are_sought_for_work_that_has_no_place_beside_lent_shares():
    """A shape takes 1,000 calls, most of them to explain it; it would take 8,400 to search in all ways."""
    more = calls_of_a_cycle(fixed_jobs_without_room(9)) - calls_of_a_cycle(fixed_jobs_without_room(8))
    assert more < 2500


def lifting(notebooks: int) -> int:
    """Return the calls that lift and restore what so many notebooks of one node have lent."""
    cluster = Cluster().node("n", 8)
    for number in range(notebooks):
        share = replace(a_notebook(f"u{number}"), request=Request(devices=1, milli_per_device=MilliGpu(50)))
        cluster.add(replace(running(share, f"n-{number % 8}"), state=State.SUSPENDED))
    index = ClusterIndex(cluster.snapshot(), Policy())
    state = begin_cycle(index, NOW)
    resume_notebooks(index, state.allocations, state.reservations, state.evictions)

    def lift() -> None:
        with state.allocations.lifting_reservations(a_job("borrower", "q")) as lifted:
            assert lifted

    return calls_of(lift)


def test_what_is_lent_on_a_node_is_lifted_as_one():
    assert lifting(MANY) == lifting(FEW)


def victims_of_one_job(jobs: int) -> int:
    """Return the calls for a job with room only where another one runs, after so many that give it no room."""
    cluster = Cluster().node("n", jobs + 1).fixed("train", ann=str(jobs)).queue("q", 1).queue("z", 0)
    devices = [f"n-{number}" for number in range(jobs)]
    notebook = idle(running(a_notebook("ann", jobs, suspendable=True), *devices), 4000)
    cluster.add(replace(notebook, state=State.SUSPENDED), running(a_job("oldest", "z", 1), f"n-{jobs}", since=-9))
    cluster.add(*(running(a_job(f"b{number}", "z", 1), device) for number, device in enumerate(devices)))
    return calls_of_a_cycle(cluster.add(a_job("w", "q", 1, preemptible=False)).snapshot())


def test_a_search_asks_once_about_each_candidate():
    """A candidate takes 104 calls; it would take 169 to compute its rank three times and to count room in vain."""
    assert victims_of_one_job(48) - victims_of_one_job(16) < 32 * 135

"""Who is named as the one for whom somebody stops is the one who gets the room."""

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Reserve
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, running


def test_room_that_was_cleared_for_one_and_went_to_another_names_the_other():
    """`right` moves so that `third` fits; then the owners take that room, and need one more to stop.

    They have a right to it by their fair share only: work within its quota would have been served before the move.
    """
    cluster = Cluster().node("n0", 4).node("n1", 4)
    cluster.queue("borrowers", 4, over_quota_weight=0).queue("owners", 2)
    cluster.add(
        running(a_job("left", "borrowers", 2), "n0-0", "n0-1"),
        running(a_job("right", "borrowers", 2, submitted=1), "n1-0", "n1-1"),
        running(a_job("small", "borrowers", 1, submitted=2), "n1-2"),
        a_job("third", "borrowers", 3, submitted=3),
        a_job("whole", "owners", 4, submitted=4),
    )
    decision = run_cycle(cluster.snapshot(), Policy(moved_after=Seconds(0)), NOW)
    stops = {i.workload: (i.reason, i.by) for i in decision.instructions if isinstance(i, Evict)}
    assert stops == {"right": (EvictReason.CONSOLIDATED, "whole"), "small": (EvictReason.RECLAIMED, "whole")}
    told = next(i.sentence for i in decision.instructions if isinstance(i, Evict) and i.workload == "right")
    assert "so that ann's whole (4 GPUs) fits" in reveal(told)


def test_work_that_goes_on_in_a_part_of_its_own_place_stops_for_whoever_gets_the_rest():
    """`first` clears the place; then `fixed` and `owed` take all that `moves` leaves of it."""
    cluster = Cluster().node("n", 3).queue("dept", 3).queue("other", 1)
    cluster.queue("a", 1.5, parent="dept").queue("b", 1.5, parent="dept")
    cluster.add(
        running(a_job("moves", "b", "0.7", tasks=3, min_members=1), "n-0", "n-1", "n-2"),
        a_job("fixed", "a", preemptible=False, submitted=1),
        a_job("first", "a", "0.7", tasks=2, min_members=1, priority=1, elastic=True, submitted=2),
        a_job("owed", "other", tasks=2, min_members=1, preemptible=False, priority=1, submitted=3),
    )
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert [(i.workload, i.by) for i in decision.instructions if isinstance(i, Evict)] == [("moves", "fixed")]


def test_the_place_of_work_that_cannot_go_is_kept_if_other_work_of_its_queue_is_reclaimed():
    """`fixed` gets a part of `elastic`, the rest of which goes on at `old`: with `fixed`, `a` is above its quota."""
    cluster = Cluster().node("n0", 2).node("n1", 2).node("n2", 2).queue("a", 1).queue("b", 5)
    cluster.add(
        running(a_job("old", "a"), "n0-1", since=400),
        running(a_job("elastic", "b", tasks=2, min_members=1, elastic=True), "n1-0", "n2-0", since=256),
        running(a_job("new", "a"), "n1-1", since=145),
        running(a_job("important", "b", tasks=2, min_members=1, elastic=True, priority=1), "n2-1", "n0-0", since=156),
        a_job("pair", "b", 2, submitted=500, priority=1),
        a_job("fixed", "a", submitted=501, priority=1, preemptible=False),
    )
    decision = run_cycle(cluster.snapshot(), Policy(consolidate=False), NOW)
    assert {i.workload for i in decision.instructions if isinstance(i, Evict)} == {"old", "new", "elastic"}
    kept = {i.workload for i in decision.instructions if isinstance(i, Reserve) and i.nominated}
    assert kept == {"pair", "elastic", "fixed"}


def test_growth_that_gets_the_place_of_work_that_does_not_start_is_named():
    """`borrows` gets a place by a move, and loses it at once to a job that may grow within its fair share."""
    cluster = Cluster().node("m", 2).node("n", 2).queue("own", 2).queue("none", 0, over_quota_weight=0)
    cluster.add(running(a_job("half", "own", 0.5), "m-0", since=330))
    cluster.add(running(a_job("other-half", "own", 0.5, submitted=1, priority=1), "n-0", since=120))
    elastic = a_job("grows", "own", tasks=3, min_members=1, elastic=True, submitted=2, priority=1)
    cluster.add(running(elastic, "m-1", "n-1", since=80), a_job("borrows", "none", submitted=3))
    decision = run_cycle(cluster.snapshot(), Policy(per_user=True), NOW)
    (moved,) = (each for each in decision.instructions if isinstance(each, Evict))
    assert (moved.workload, moved.reason, moved.by) == ("half", EvictReason.CONSOLIDATED, "grows")
    assert "grows" in moved.sentence

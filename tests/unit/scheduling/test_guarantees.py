"""Guarantees hold whatever the shape of the work: sizes, levels, several victims, kept places, work without a GPU."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision, Evict, Shrink
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, admitted, apply, evicted, running, stopped, why, without
from tests.explanations import explained

POLICY = Policy()


def rounds(snapshot: Snapshot, policy: Policy = POLICY) -> Iterator[tuple[Decision, Snapshot]]:
    """Decide, carry out, let everything stop that was told to, until nothing happens any more."""
    for _ in range(20):
        decision = explained(snapshot, policy, NOW)
        snapshot = stopped(apply(snapshot, decision))
        yield decision, snapshot
        if not decision.instructions:
            return
    raise AssertionError("the cluster does not come to rest")


def settled(snapshot: Snapshot, policy: Policy = POLICY) -> tuple[Snapshot, list[str]]:
    """The cluster at rest, and all that was evicted on the way."""
    victims: list[str] = []
    for decision, after in rounds(snapshot, policy):
        victims += [i.workload for i in decision.instructions if isinstance(i, Evict | Shrink)]
        snapshot = after
    return snapshot, victims


def running_ids(snapshot: Snapshot) -> set[str]:
    return {workload.id for workload in snapshot.workloads if workload.state is State.RUNNING}


def singles(queue: str, *devices: str, since: float = 0, **fields) -> list[Workload]:
    """One job of one GPU on each device, named by queue and number, the later the newer."""
    return [
        running(a_job(f"{queue}{number}", queue, submitted=since + number, **fields), device, since=since + number)
        for number, device in enumerate(devices, 1)
    ]


# --- a guarantee holds whatever the size of the job


def department(*, weight: int = 0, order: tuple[str, ...] = ("a", "b")) -> Cluster:
    """Four GPUs; d1 (2) with a (2) and b (0); d2 (2) is idle."""
    cluster = Cluster().node("n", devices=4).queue("d1", 2, over_quota_weight=weight)
    for name in order:
        cluster.queue(name, 2 if name == "a" else 0, parent="d1")
    return cluster.queue("d2", 2)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("weight", [0, 1])
def test_a_leaf_within_its_quota_takes_a_large_place_from_small_jobs_of_a_sibling(weight, order):
    cluster = department(weight=weight, order=order).add(*singles("b", "n-0", "n-1", "n-2", "n-3"))
    cluster.add(a_job("wide", "a", 2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert "wide" in running_ids(snapshot)
    assert sorted(victims) == ["b3", "b4"], "the newest two, and no more"


def test_a_gang_within_its_quota_takes_from_small_jobs_of_a_sibling():
    cluster = department().add(*singles("b", "n-0", "n-1", "n-2", "n-3"))
    cluster.add(a_job("gang", "a", 1, tasks=2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert "gang" in running_ids(snapshot)
    assert len(victims) == 2


def test_fractions_give_way_to_a_whole_device_within_quota():
    cluster = Cluster().node("n", devices=1).queue("d1", 1, over_quota_weight=0)
    cluster.queue("a", 1, parent="d1").queue("b", 0, parent="d1").queue("d2", 0)
    cluster.add(*[running(a_job(f"b{i}", "b", "0.25", submitted=i), "n-0", since=i) for i in range(4)])
    cluster.add(a_job("whole", "a", 1, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert running_ids(snapshot) == {"whole"}
    assert len(victims) == 4


def test_one_victim_and_a_free_device_are_enough_although_the_department_then_borrows_more():
    cluster = department().add(*singles("b", "n-0", "n-1", "n-2"), a_job("wide", "a", 2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert "wide" in running_ids(snapshot)
    assert victims == ["b3"]


def test_three_levels_change_nothing():
    cluster = Cluster().node("n", devices=4).queue("lab", 2, over_quota_weight=0).queue("d1", 2, parent="lab")
    cluster.queue("a", 2, parent="d1").queue("b", 0, parent="d1").queue("c", 0, parent="lab").queue("other", 2)
    cluster.add(*singles("b", "n-0", "n-1"), *singles("c", "n-2", "n-3"), a_job("wide", "a", 2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert "wide" in running_ids(snapshot)
    assert len(victims) == 2


def test_elastic_work_gives_replicas_to_a_larger_job_within_quota():
    grown = running(a_job("grown", "b", 1, tasks=4, min_members=1, elastic=True), "n-0", "n-1", "n-2", "n-3")
    cluster = department().add(grown, a_job("wide", "a", 2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert running_ids(snapshot) == {"grown", "wide"}
    assert victims == ["grown"]


def test_small_jobs_do_not_stop_for_a_larger_one_that_would_itself_be_taken_back():
    cluster = Cluster().node("n", devices=4).queue("d1", 2, over_quota_weight=0)
    cluster.queue("a", 1, parent="d1").queue("b", 0, parent="d1").queue("d2", 2)
    cluster.add(*singles("b", "n-0", "n-1", "n-2", "n-3"), a_job("wide", "a", 2, submitted=100))
    assert settled(cluster.snapshot())[1] == []


def test_inside_a_queue_a_larger_job_of_higher_priority_takes_what_the_queue_is_guaranteed():
    cluster = Cluster().node("n", devices=4).queue("d1", 2, over_quota_weight=0)
    cluster.queue("a", 2, parent="d1").queue("b", 0, parent="d1").queue("d2", 2)
    cluster.add(*singles("a", "n-0", "n-1"), *singles("b", "n-2", "n-3", since=-50, preemptible=True))
    cluster.add(a_job("urgent", "a", 2, submitted=100, priority=1))
    snapshot, victims = settled(cluster.snapshot())
    assert "urgent" in running_ids(snapshot)
    assert sorted(victims) == ["a1", "a2"]


def test_inside_a_queue_above_its_quota_a_larger_job_within_it_takes_from_lower_priorities():
    """What the queue borrows goes first when others want it back, so the job keeps what it took."""
    cluster = Cluster().node("n", devices=4).queue("q", 2, over_quota_weight=0).queue("other", 2)
    cluster.add(*singles("q", "n-0", "n-1", "n-2", "n-3"), a_job("urgent", "q", 2, submitted=100, priority=1))
    snapshot, victims = settled(cluster.snapshot())
    assert "urgent" in running_ids(snapshot)
    assert len(victims) == 2
    back = replace(snapshot, workloads=(*snapshot.workloads, a_job("owner", "other", 2, submitted=200)))
    snapshot, victims = settled(back)
    assert {"urgent", "owner"} <= running_ids(snapshot)
    assert len(victims) == 2


def test_work_that_cannot_be_paused_takes_a_large_place_from_lower_priorities_within_quota():
    cluster = Cluster().node("n", devices=4).queue("q", 2, over_quota_weight=0).queue("other", 2)
    cluster.add(*singles("q", "n-0", "n-1", "n-2", "n-3"))
    cluster.add(a_job("fixed", "q", 2, submitted=100, priority=1, preemptible=False))
    snapshot, victims = settled(cluster.snapshot())
    assert "fixed" in running_ids(snapshot)
    assert len(victims) == 2


# --- rights are asked again when they grow


@pytest.mark.parametrize("order", [tuple("abcde"), tuple("edcba"), tuple("decba")])
@pytest.mark.parametrize("newest", ["b", "c"])
@pytest.mark.parametrize("shape", ["devices", "gang"])
def test_a_victim_of_the_own_department_lets_the_taker_take_elsewhere(order, newest, shape):
    """Departments d and e of 2 GPUs each: a (2) and b (0) are in d, and c (2) is in e."""
    quota, parent = {"d": 2, "e": 2, "a": 2, "b": 0, "c": 2}, {"a": "d", "b": "d", "c": "e"}
    cluster = Cluster().node("n", devices=4)
    for name in order:
        cluster.queue(name, quota[name], parent=parent.get(name))
    cluster.add(*singles("b", "n-0", since=50 if newest == "b" else 0))
    cluster.add(*singles("c", "n-1", "n-2", "n-3", since=0 if newest == "b" else 50))
    wide = a_job("wide", "a", 2, submitted=100) if shape == "devices" else a_job("wide", "a", tasks=2, submitted=100)
    snapshot, victims = settled(cluster.add(wide).snapshot())
    assert "wide" in running_ids(snapshot)
    assert sorted(victims) == ["b1", "c3"]


def test_a_lower_priority_of_the_own_queue_lets_the_taker_take_elsewhere():
    cluster = Cluster().node("n", devices=4).queue("a", 2).queue("c", 2)
    cluster.add(*singles("a", "n-0"), *singles("c", "n-1", "n-2", "n-3"))
    cluster.add(a_job("urgent", "a", 2, submitted=100, priority=1))
    decision = explained(cluster.snapshot(), Policy(), NOW)
    assert sorted(evicted(decision)) == ["a1", "c3"]
    reasons = {i.workload: i.reason for i in decision.instructions if isinstance(i, Evict)}
    assert reasons == {"a1": EvictReason.PREEMPTED, "c3": EvictReason.RECLAIMED}
    assert "urgent" in running_ids(settled(cluster.snapshot())[0])


def test_rights_grow_by_levels():
    """Each level gives one: the sister team, the sister department, the other root."""
    cluster = Cluster().node("n", devices=6).queue("r1", 3).queue("r2", 3)
    cluster.queue("d1", 3, parent="r1").queue("d2", 0, parent="r1")
    cluster.queue("a", 3, parent="d1").queue("b", 0, parent="d1").queue("e", 0, parent="d2").queue("c", 3, parent="r2")
    cluster.add(*singles("b", "n-0"), *singles("e", "n-1"), *singles("c", "n-2", "n-3", "n-4", "n-5"))
    snapshot, victims = settled(cluster.add(a_job("wide", "a", 3, submitted=100)).snapshot())
    assert "wide" in running_ids(snapshot)
    assert sorted(victims) == ["b1", "c4", "e1"]


def test_the_victim_that_makes_the_right_goes_also_where_its_own_device_is_of_no_use():
    """The job needs one node. The jobs of c stand there; what b uses elsewhere has to go for the right to take them."""
    cluster = Cluster().node("m", devices=1).node("n", devices=4).queue("d1", 2).queue("d2", 2).queue("idle", 1)
    cluster.queue("a", 2, parent="d1").queue("b", 0, parent="d1").queue("c", 2, parent="d2")
    cluster.add(*singles("b", "m-0"), *singles("c", "n-0", "n-1", "n-2", "n-3", since=50))
    decision = explained(cluster.add(a_job("wide", "a", 2, submitted=100)).snapshot(), Policy(), NOW)
    assert len(evicted(decision)) >= 2
    snapshot, victims = settled(cluster.snapshot())
    assert "wide" in running_ids(snapshot)
    assert len(victims) == len(set(victims)), "nobody is evicted twice"


def test_a_victim_that_makes_the_right_is_not_reprieved():
    """Nobody stops for the place itself, so the eviction of `low` alone gives `urgent` the right to it."""
    cluster = Cluster().node("n", devices=2).queue("c", 0.7).queue("b", 0, priority=1)
    cluster.queue("a", 1, over_quota_weight=0)
    cluster.add(running(a_job("low", "a", 0.3), "n-0"), running(a_job("fixed", "c", 0.7, preemptible=False), "n-0"))
    cluster.add(a_job("waits", "b", 1, submitted=10), a_job("urgent", "a", 1, submitted=100, priority=1))
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == ["low"]
    assert "urgent" in running_ids(settled(cluster.snapshot())[0])


# --- queues above their share give before queues within it


@pytest.mark.parametrize("shape", [(2, 1), (1, 2), (1, 1)])
def test_a_queue_above_its_share_gives_before_one_within_it(shape):
    gpus, tasks = shape
    cluster = Cluster().node("n", devices=8).queue("fair", 1).queue("greedy", 1).queue("taker", 2)
    cluster.add(*singles("greedy", "n-0", "n-1", "n-2", "n-3", "n-4"))
    cluster.add(*singles("fair", "n-5", "n-6", "n-7", since=50))
    jobs = [a_job("one", "taker", gpus, tasks=tasks, submitted=100)]
    if gpus == tasks == 1:
        jobs.append(a_job("two", "taker", submitted=101))
    snapshot, victims = settled(cluster.add(*jobs).snapshot())
    assert {job.id for job in jobs} <= running_ids(snapshot)
    assert sorted(victims) == ["greedy4", "greedy5"]


def test_inside_a_department_the_team_above_its_share_gives_first():
    cluster = Cluster().node("n", devices=8).queue("dept", 2).queue("taker", 2)
    cluster.queue("fair", 1, parent="dept").queue("greedy", 1, parent="dept")
    cluster.add(*singles("greedy", "n-0", "n-1", "n-2", "n-3", "n-4"))
    cluster.add(*singles("fair", "n-5", "n-6", "n-7", since=50), a_job("wide", "taker", 2, submitted=100))
    snapshot, victims = settled(cluster.snapshot())
    assert "wide" in running_ids(snapshot)
    assert sorted(victims) == ["greedy4", "greedy5"]


def test_a_queue_within_its_share_gives_where_those_above_theirs_cannot():
    """All that `greedy` has stands where the job cannot go."""
    cluster = Cluster().node("m", devices=2).node("n", devices=2).queue("fair", 1).queue("greedy", 0).queue("taker", 1)
    cluster.add(*singles("greedy", "m-0", "m-1"), *singles("fair", "n-0", "n-1", since=50))
    there = replace(cluster.nodes[1], labels={"zone": "n"})
    cluster.nodes[1] = there
    job = a_job("picky", "taker", submitted=100)
    job = replace(job, request=Request(devices=1, node_labels=(("zone", "n"),)))
    snapshot, victims = settled(cluster.add(job).snapshot())
    assert "picky" in running_ids(snapshot)
    assert victims[0].startswith("fair")


@pytest.mark.parametrize("tasks", [1, 2])
def test_lower_priorities_of_the_own_queue_give_before_another_queue_within_its_share(tasks):
    """Only node n suits the job. Each node there is free for what goes: `low` starts again on node m."""
    cluster = Cluster().node("m", devices=tasks).node("n", devices=2 * tasks).queue("fair", 0).queue("taker", 2 * tasks)
    cluster.nodes[1] = replace(cluster.nodes[1], labels={"zone": "n"})
    places = [device.id for device in cluster.nodes[1].devices]
    cluster.add(*singles("taker", *places[:tasks]), *singles("fair", *places[tasks:], since=50))
    job = a_job("picky", "taker", tasks=tasks, submitted=100, priority=1)
    job = replace(job, request=Request(devices=1, node_labels=(("zone", "n"),)))
    snapshot, victims = settled(cluster.add(job).snapshot(), Policy(consolidate=False))
    assert sorted(victims) == [f"taker{number}" for number in range(1, tasks + 1)]
    assert len(running_ids(snapshot)) == 2 * tasks + 1


# --- a place for which somebody was evicted is kept until it is used


def kept_place() -> Cluster:
    """Two GPUs; a and b with a quota of 1 each; b runs one job of 2 GPUs."""
    cluster = Cluster().node("n", devices=2).queue("a", 1).queue("b", 1)
    return cluster.add(running(a_job("big", "b", 2), "n-0", "n-1"))


def test_an_older_job_that_is_not_entitled_does_not_get_the_place_after_the_victim_has_stopped():
    cluster = kept_place().add(a_job("older", "a", 2, submitted=50), a_job("younger", "a", 1, submitted=60))
    first, second, *_ = rounds(cluster.snapshot())
    assert evicted(first[0]) == ["big"]
    assert why(first[0], "younger").why.reason is PendingReason.WAITS_FOR_EVICTION
    assert admitted(second[0]) == ["younger"]


def test_the_place_is_kept_while_the_victim_takes_several_cycles_to_stop():
    cluster = kept_place().add(a_job("older", "a", 2, submitted=50), a_job("younger", "a", 1, submitted=60))
    snapshot = apply(cluster.snapshot(), run_cycle(cluster.snapshot(), Policy(), NOW))
    assert run_cycle(snapshot, Policy(), NOW).instructions == ()
    snapshot = replace(snapshot, workloads=(*snapshot.workloads, a_job("third", "a", 1, submitted=-900)))
    snapshot = stopped(apply(snapshot, run_cycle(snapshot, Policy(), NOW)))
    assert "younger" in admitted(run_cycle(snapshot, Policy(), NOW))


def test_growth_of_elastic_work_does_not_take_the_place():
    cluster = Cluster().node("n", devices=3).queue("a", 2).queue("b", 1)
    cluster.add(running(a_job("grows", "a", 1, tasks=3, min_members=1, elastic=True), "n-0"))
    cluster.add(running(a_job("big", "b", 2), "n-1", "n-2"), a_job("next", "a", 1, submitted=60))
    first, second, *_ = rounds(cluster.snapshot())
    assert evicted(first[0]) == ["big"]
    assert "next" in admitted(second[0])


def test_the_place_is_kept_from_an_older_job_that_waits_long_enough_for_a_reservation():
    policy = Policy(reserve_after=Seconds(900))
    cluster = kept_place().add(a_job("older", "a", 2, submitted=0), a_job("younger", "a", 1, submitted=200))
    (_, after), *_ = rounds(cluster.snapshot(), replace(policy, reserve_after=None))
    assert "younger" in admitted(run_cycle(after, policy, NOW))


def test_the_place_is_kept_from_the_reservation_of_another_queue_that_it_may_pass():
    """The reservation of `longest` is older than the eviction for `owner`, and needs the same device."""
    cluster = Cluster().node("n", devices=2).queue("a", 1).queue("b", 0).queue("c", 0)
    cluster.add(*singles("b", "n-0", "n-1"), a_job("longest", "c", 2, submitted=-5000))
    policy = Policy()
    snapshot = cluster.snapshot()
    snapshot = apply(snapshot, run_cycle(snapshot, policy, NOW))
    snapshot = replace(snapshot, workloads=(*snapshot.workloads, a_job("owner", "a", 1, submitted=500)))
    decision = run_cycle(snapshot, policy, NOW)
    assert evicted(decision) == ["b2"]
    after = without(stopped(apply(snapshot, decision)), "b1")
    assert "owner" in admitted(run_cycle(after, policy, NOW))


def test_a_place_is_given_up_with_its_workload():
    cluster = kept_place().add(a_job("older", "a", 2, submitted=50), a_job("younger", "a", 1, submitted=60))
    (_, after), *_ = rounds(cluster.snapshot())
    assert admitted(run_cycle(without(after, "younger"), Policy(), NOW)) == ["older"]


# --- work without a GPU takes its turn


def cpu_job(name: str, queue: str, cores: float, gpus: float = 0, **fields) -> Workload:
    job = a_job(name, queue, gpus, **fields)
    return replace(job, request=replace(job.request, cpu_milli=round(1000 * cores)))


def scarce(own: Workload, **own_fields) -> Cluster:
    """A node of 4 GPUs and 8 cores; own has a quota of 4 GPUs, bor of none; bor keeps four jobs of 2 cores."""
    cluster = Cluster().node("n", devices=4).queue("own", 4, **own_fields).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=8000)
    for number in range(4):
        cluster.add(replace(running(cpu_job(f"c{number}", "bor", 2, submitted=number)), placement=here()))
    return cluster.add(own)


def here():
    from jupyter_gq.domain.workload import TaskPlacement

    return (TaskPlacement(node="n"),)


def minutes_until_start(cluster: Cluster, policy: Policy, most: int = 60, **new) -> int:
    """Each minute one job of bor ends and another comes; return after how many minutes own's job starts."""
    snapshot = cluster.snapshot()
    for minute in range(most):
        now = Instant(NOW + 60 * minute)
        oldest = min(
            (w for w in snapshot.workloads if w.queue == "bor" and w.state is State.RUNNING),
            key=lambda w: w.submitted_at,
            default=None,
        )
        if oldest is not None:
            snapshot = without(snapshot, oldest.id)
        comes = replace(cpu_job(f"new{minute}", "bor", 2, **new), submitted_at=now)
        snapshot = replace(snapshot, workloads=(*snapshot.workloads, comes))
        decision = run_cycle(snapshot, policy, now)
        if "wants" in admitted(decision):
            return minute
        snapshot = apply(snapshot, decision, now)
    raise AssertionError(f"the job of own does not start within {most} minutes")


@pytest.mark.parametrize("priority", [0, 100])
def test_work_without_a_gpu_does_not_pass_a_reservation(priority):
    wants = replace(cpu_job("wants", "own", 4, gpus=1), submitted_at=NOW)
    assert minutes_until_start(scarce(wants), Policy(), priority=priority) <= 35


def test_work_without_a_gpu_is_within_quota_where_its_queue_has_a_quota_of_cores():
    """Then the reservation of another queue does not bind it."""
    cluster = Cluster().node("n", devices=1).queue("own", 1, cpu_quota=2000).queue("bor", 0, cpu_quota=2000)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=4000)
    cluster.add(replace(running(cpu_job("c0", "bor", 1)), placement=here()))
    cluster.add(cpu_job("wants", "own", 4, gpus=1, submitted=-5000), cpu_job("new", "bor", 1, submitted=900))
    assert admitted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["new"]


def test_priorities_count_inside_a_queue_only():
    """Cores for one: the queue that is within its quota of them goes first, whatever the priorities."""
    cluster = Cluster().node("n", devices=0).queue("own", 0, cpu_quota=2000).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=2000)
    cluster.add(cpu_job("loud", "bor", 2, priority=100), cpu_job("quiet", "own", 2, submitted=50))
    assert admitted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["quiet"]


def test_a_guaranteed_gpu_goes_before_work_without_one_that_came_first():
    cluster = Cluster().node("n", devices=1).queue("own", 1).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=4000)
    cluster.add(cpu_job("first", "bor", 4, priority=9), cpu_job("wants", "own", 4, gpus=1, submitted=50))
    assert admitted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["wants"]


def test_work_without_a_gpu_comes_after_kept_places():
    """The cores that are freed for `wants` are its own, also once the victim has stopped."""
    cluster = Cluster().node("n", devices=1).queue("own", 1, cpu_quota=4000).queue("bor", 0, cpu_quota=0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=4000)
    cluster.add(running(cpu_job("uses", "bor", 4, gpus=1), "n-0"))
    cluster.add(cpu_job("wants", "own", 4, gpus=1, submitted=50))
    (_, after), *_ = rounds(cluster.snapshot())
    after = replace(after, workloads=(*after.workloads, cpu_job("loud", "bor", 4, priority=9)))
    assert admitted(run_cycle(after, Policy(), NOW)) == ["wants"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_claim_on_gpus_does_not_hold_above_a_quota_of_cores(gpus):
    """Otherwise `light` takes its cores back, since own is above its quota of them, and so on in turns."""
    cluster = Cluster().node("n", devices=2).queue("own", 2, cpu_quota=1000).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=4000)
    cluster.add(running(cpu_job("uses", "bor", 0, gpus=1), "n-0"))
    light = running(cpu_job("light", "bor", 4, gpus=gpus), *(["n-1"] * gpus))
    cluster.add(light if gpus else replace(light, placement=here()))
    cluster.add(cpu_job("wants", "own", 2, gpus=1, submitted=50))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == []
    cluster.queues[0] = replace(cluster.queues[0], cpu_quota=2000)
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["light"], "within the quota it holds"


def test_work_without_a_gpu_takes_no_gpu_back():
    cluster = Cluster().node("n", devices=1).queue("own", 1).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], cpu_milli=2000)
    cluster.add(running(cpu_job("uses", "bor", 2, gpus=1), "n-0"), cpu_job("light", "own", 2, submitted=50))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == []


def test_the_sentence_says_that_a_quota_of_cores_is_missing():
    decision = explained(scarce(cpu_job("wants", "own", 4, gpus=1, submitted=50)).snapshot(), Policy(), NOW)
    sentence = why(decision, "wants").why.sentence
    assert why(decision, "wants").why.reason is PendingReason.NO_CPU_OR_MEMORY
    assert sentence.endswith("bor has no CPU quota, so its work is not paused for this.")
    with_quota = scarce(cpu_job("wants", "own", 4, gpus=1, submitted=50))
    with_quota.queues[1] = replace(with_quota.queues[1], cpu_quota=2000)
    decision = explained(with_quota.snapshot(), Policy(), NOW)
    assert sorted(evicted(decision)) == ["c2", "c3"], "with the quota, what is above it is taken back"


def test_the_sentence_says_that_a_quota_of_memory_is_missing():
    cluster = Cluster().node("n", devices=1).queue("own", 1).queue("bor", 0)
    cluster.nodes[0] = replace(cluster.nodes[0], memory=MiB(8192))
    big = a_job("big", "bor", 0)
    big = replace(running(replace(big, request=replace(big.request, memory=MiB(8192)))), placement=here())
    wants = a_job("wants", "own", 1, submitted=50)
    wants = replace(wants, request=replace(wants.request, memory=MiB(4096)))
    decision = explained(cluster.add(big, wants).snapshot(), Policy(), NOW)
    assert why(decision, "wants").why.sentence.endswith("bor has no memory quota, so its work is not paused for this.")

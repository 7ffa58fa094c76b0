"""Each rule by which a job has to end although nobody asked for it: views of pods and a time in, a judgement out."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.runs import judging
from jupyter_gq.backends.kubernetes.runs.judging import ClusterFacts, RunFacts, find_silent_job, judge, update_delays
from jupyter_gq.backends.kubernetes.runs.phases import RunEvent
from jupyter_gq.backends.kubernetes.runs.run import NO_DELAYS, TaskDelays
from jupyter_gq.backends.protocol import Outcome

from .paper import OPTIONS
from .rules import untested_rules

NOW = 10_000.0
GPU_NODE = ClusterFacts(gpu_nodes=frozenset({"n1"}))


def a_pod(task=0, phase="Pending", node="n1", slots="n1/0", **fields):
    labels = {names.WORKLOAD: "job-a", names.ATTEMPT: "1", names.TASK: str(task)}
    annotations = {names.SLOTS: slots} if slots else {}
    return PodView(
        namespace="train",
        name=f"p{task}",
        uid=f"u{task}",
        phase=phase,
        node=node,
        labels=labels,
        annotations=annotations,
        image="lab:1",
        **fields,
    )


def facts(*pods, **fields):
    """A job with these pods, and as many tasks unless it is said otherwise."""
    found = {"tasks": len(pods), "planned_nodes": {pod.task: "n1" for pod in pods}, **fields}
    return RunFacts(id="job-a", number=1, pods={pod.task: pod for pod in pods}, **found)


def since(seconds, *kinds, task=0):
    """The delays of a task that is held up like that for so long."""
    return {task: TaskDelays(**dict.fromkeys(kinds, NOW - seconds))}


def judged(run, cluster=GPU_NODE, options=OPTIONS):
    return judge(run, cluster, options, NOW)


def outcome(run, cluster=GPU_NODE, options=OPTIONS):
    """How the run ends; None = it goes on."""
    verdict = judged(run, cluster, options).verdict
    return None if verdict is None else verdict.result.outcome


RUNNING = a_pod(phase="Running")
MISSING_CLAIM = '0/2 nodes are available: persistentvolumeclaim "home-ann" not found.'
UNPLACED = a_pod(node="", unschedulable="Insufficient cpu")
UNSEEN = a_pod(node="")
GATED = a_pod(node="", held_back="its scheduling gates have not been removed: kueue")
STARTING = a_pod(waiting="ContainerCreating")
PULLING = a_pod(waiting="ImagePullBackOff", waiting_message="denied")
HOPELESS = a_pod(waiting="InvalidImageName", waiting_message="no name")


def test_a_job_whose_tasks_run_goes_on_and_has_nothing_to_say():
    seen = judged(facts(RUNNING, a_pod(1, "Running"), has_begun=True, creating_since=NOW - 9_000))
    assert (seen.verdict, seen.sentence) == (None, "")
    assert set(seen.delays.values()) == {NO_DELAYS}


def test_the_changed_pod_rule():
    verdict = judged(facts(replace(RUNNING, changed=("its node",)))).verdict
    assert verdict.result.sentence.startswith("The cluster changed the pod p0 at its creation (its node), so that")
    assert (verdict.result.outcome, verdict.task, verdict.back_off) == (Outcome.REFUSED, 0, ())


def test_the_lost_node_rule():
    lost = ClusterFacts(lost={"n1": "The node n1 is gone."})
    verdict = judged(facts(RUNNING), lost).verdict
    assert (verdict.result.outcome, verdict.result.sentence) == (Outcome.LOST, "The node n1 is gone.")
    assert (verdict.task, verdict.back_off, verdict.event) == (0, (), RunEvent.ABORTED)
    assert outcome(facts(RUNNING, over=frozenset({0})), lost) is None, "its result counts"
    assert outcome(facts(a_pod(phase="Running", node="n2")), lost) is None


@pytest.mark.parametrize(("pod", "limit"), [(UNPLACED, 20), (UNSEEN, 60), (GATED, 60)])
def test_the_unplaced_rule(pod, limit):
    assert outcome(facts(pod, delays=since(limit - 1, "unplaced"))) is None
    verdict = judged(facts(pod, delays=since(limit, "unplaced"))).verdict
    why = pod.unschedulable or pod.held_back or "no scheduler has looked at it"
    assert verdict.result.sentence == f"The cluster did not place the pod p0 on n1 in {limit} s: {why}"
    assert (verdict.result.outcome, verdict.event) == (Outcome.REFUSED, RunEvent.REFUSED)


@pytest.mark.parametrize(("words", "closed"), [("1 Insufficient nvidia.com/gpu", ("n1",)), (MISSING_CLAIM, ())])
def test_a_node_is_closed_for_an_unplaced_pod_only_if_the_pod_fits_elsewhere(words, closed):
    pod = replace(UNPLACED, unschedulable=words, annotations={names.SLOTS: "n1/0"})
    assert judged(facts(pod, delays=since(20, "unplaced"))).verdict.back_off == closed


def test_the_unplaced_rule_tells_what_the_scheduler_says_meanwhile():
    assert judged(facts(UNPLACED)).sentence == "The cluster does not place the pod p0 yet: Insufficient cpu"
    assert judged(facts(GATED)).sentence == f"The cluster does not place the pod p0 yet: {GATED.held_back}"
    assert judged(facts(UNSEEN)).sentence == ""


def test_the_trouble_rule():
    told = "The image lab:1 cannot be used (ImagePullBackOff): denied."
    assert (outcome(facts(PULLING)), judged(facts(PULLING)).sentence) == (None, told)
    assert outcome(facts(PULLING, delays=since(59, "in_trouble"))) is None
    verdict = judged(facts(PULLING, delays=since(60, "in_trouble"))).verdict
    assert (verdict.result.outcome, verdict.result.sentence, verdict.back_off) == (Outcome.FAILED, told, ())
    assert outcome(facts(HOPELESS)) is Outcome.FAILED, "no time mends it"


def test_the_slow_start_rule():
    assert judged(facts(STARTING, delays=since(59, "not_started"))).sentence == ""
    told = judged(facts(STARTING, delays=since(60, "not_started"))).sentence
    assert told.startswith("The pod p0 is on n1, and the container has not started for more than a minute")
    assert told.endswith("The job is planned again after 1200 s.")
    assert outcome(facts(STARTING, delays=since(1199, "not_started"))) is None
    verdict = judged(facts(STARTING, delays=since(1200, "not_started"))).verdict
    assert verdict.result.sentence.startswith("The container of the pod p0 did not start on n1 in 1200 s:")
    assert (verdict.result.outcome, verdict.back_off) == (Outcome.REFUSED, ("n1",))


AS_JOBS = replace(OPTIONS, as_jobs=True)


@pytest.mark.parametrize(
    ("message", "told"),
    [("Error creating: exceeded quota", ": exceeded quota."), ("", "; the Job's events say why."), (None, None)],
)
def test_the_silent_job_rule(message, told):
    run = facts(a_pod(0, "Running"), tasks=2, creating_since=NOW - 30)
    verdict = judged(run, ClusterFacts(job_message=message), AS_JOBS).verdict
    if told is None:
        assert verdict is None, "nobody has answered yet"
    else:
        assert verdict.result.sentence == f"The Job gq-job-a-1-1 has made no pod in 30 s{told}"
        assert (verdict.result.outcome, verdict.task) == (Outcome.REFUSED, None)


def test_the_silent_job_rule_asks_for_the_first_job_without_a_pod_only_when_it_is_late():
    run = facts(a_pod(1, "Running"), tasks=3, creating_since=NOW - 30)
    assert find_silent_job(run, AS_JOBS, NOW) == "gq-job-a-1-0"
    assert find_silent_job(run, AS_JOBS, NOW - 1) == ""
    assert find_silent_job(run, OPTIONS, NOW) == "", "its pods are not made by Jobs"
    assert find_silent_job(replace(run, creating_since=None), AS_JOBS, NOW) == ""
    assert find_silent_job(replace(run, tasks=0), AS_JOBS, NOW) == "", "none is missing"


def test_the_taken_device_rule():
    taken = ClusterFacts(taken_device="n1/0 could not be held: why")
    verdict = judged(facts(RUNNING), taken).verdict
    sentence = "The device of the job was given to others: n1/0 could not be held: why"
    assert (verdict.result.outcome, verdict.result.sentence) == (Outcome.LOST, sentence)
    assert outcome(facts(tasks=1), taken) is None, "no pod of it uses the device"


FAILED = a_pod(1, "Failed", ended=Ended(exit_code=1, message='{"outcome": "FAILED", "sentence": "ValueError"}'))
DONE = a_pod(1, "Succeeded", ended=Ended(exit_code=0, message='{"outcome": "SUCCEEDED"}'))
PAUSED = a_pod(1, "Succeeded", ended=Ended(exit_code=0, message='{"outcome": "PAUSED"}'))


@pytest.mark.parametrize(
    ("pod", "wanted"), [(FAILED, Outcome.FAILED), (a_pod(1), Outcome.LOST), (DONE, None), (PAUSED, None)]
)
def test_the_failed_task_rule(pod, wanted):
    """A pod that is over without a result was deleted."""
    run = facts(RUNNING, pod, over=frozenset({1}), has_begun=True)
    assert outcome(run) is wanted
    if wanted is not None:
        assert judged(run).verdict.task == 1
    alone = facts(replace(pod, labels={**pod.labels, names.TASK: "0"}), over=frozenset({0}), has_begun=True)
    assert outcome(alone) is None, "nobody waits for it: the run just ends"


def test_the_gang_start_rule():
    run = facts(RUNNING, a_pod(1, node="n2"), tasks=3, creating_since=NOW - 300)
    verdict = judged(run).verdict
    assert verdict.result.sentence == "The job did not start: 2 of 3 tasks had not begun after 300 s."
    assert (verdict.result.outcome, verdict.task) == (Outcome.REFUSED, None)
    assert verdict.back_off == ("n2",), "where a container has not started"
    assert outcome(replace(run, creating_since=NOW - 299)) is None
    assert outcome(replace(run, has_begun=True)) is None
    assert outcome(replace(run, creating_since=None)) is None, "an earlier process created its pods"
    assert outcome(facts(a_pod(), creating_since=NOW - 300)) is None, "it is alone"


@pytest.mark.parametrize(
    ("slots", "gpu_nodes", "closed"), [("n1/0", {"n1"}, True), ("", {"n1"}, False), ("", set(), True)]
)
@pytest.mark.parametrize("delay", ["unplaced", "not_started"])
def test_the_back_off_rule(delay, slots, gpu_nodes, closed):
    """Work without a GPU that finds no place on a node closes no GPUs to others."""
    pod = a_pod(slots=slots)
    if delay == "unplaced":
        pod = replace(pod, node="", unschedulable="Insufficient cpu")
    verdict = judged(facts(pod, delays=since(2_000, delay)), ClusterFacts(gpu_nodes=frozenset(gpu_nodes))).verdict
    assert verdict.result.outcome is Outcome.REFUSED
    assert verdict.back_off == (("n1",) if closed else ())


@pytest.mark.parametrize("pod", [UNSEEN, GATED])
def test_the_back_off_rule_blames_no_node_that_no_scheduler_has_tried(pod):
    verdict = judged(facts(pod, delays=since(2_000, "unplaced"))).verdict
    assert (verdict.result.outcome, verdict.back_off) == (Outcome.REFUSED, ())


def test_a_task_has_begun_if_its_container_runs_although_a_sidecar_keeps_the_pod_pending():
    pod = a_pod(has_run=True)
    assert update_delays(NO_DELAYS, pod, NOW) == NO_DELAYS
    assert outcome(facts(pod, delays=since(9_000, "not_started"), has_begun=True)) is None


def test_the_back_off_rule_on_tasks_that_do_not_start_together():
    run = facts(a_pod(0), a_pod(1, node="n2", slots=""), creating_since=NOW - 300)
    both = judged(run, ClusterFacts()).verdict
    assert both.back_off == ("n1", "n2")
    assert judged(run, ClusterFacts(gpu_nodes=frozenset({"n1", "n2"}))).verdict.back_off == ("n1",)


def test_the_first_rule_that_applies_gives_the_verdict():
    """One task after the other, then the run as a whole."""
    failed = replace(FAILED, labels=a_pod(2).labels)
    run = facts(RUNNING, replace(HOPELESS, labels=a_pod(1).labels), failed, over=frozenset({2}))
    taken = ClusterFacts(taken_device="why", lost={"n1": "The node n1 is gone."})
    assert judged(run, taken).verdict.task == 0
    hopeless = judged(replace(run, over=frozenset({0, 2})), replace(taken, lost={})).verdict
    assert (hopeless.task, hopeless.result.outcome) == (1, Outcome.FAILED)
    assert outcome(replace(run, over=frozenset({0, 1, 2})), replace(taken, lost={})) is Outcome.LOST


def test_delays_begin_when_something_is_first_seen_and_end_with_it():
    unplaced = update_delays(NO_DELAYS, UNPLACED, 1.0)
    assert unplaced == update_delays(unplaced, UNPLACED, 2.0) == TaskDelays(unplaced=1.0)
    starting = update_delays(unplaced, STARTING, 3.0)
    assert starting == update_delays(starting, STARTING, 4.0) == TaskDelays(not_started=3.0)
    pulling = update_delays(starting, PULLING, 5.0)
    assert pulling == update_delays(pulling, PULLING, 6.0) == TaskDelays(in_trouble=5.0, not_started=3.0)
    assert update_delays(pulling, STARTING, 7.0) == TaskDelays(not_started=3.0), "it has been starting all the time"
    assert update_delays(pulling, RUNNING, 7.0) == NO_DELAYS


def test_a_judgement_changes_nothing_that_it_is_given():
    delays = since(5, "unplaced")
    run = facts(UNPLACED, PULLING, delays=delays)
    before = replace(run, delays=dict(delays))
    assert judged(run).delays != delays
    assert run == before


def test_each_rule_of_the_module_has_a_test():
    assert untested_rules(judging, globals()) == []

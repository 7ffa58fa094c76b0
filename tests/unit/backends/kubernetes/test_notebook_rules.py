"""Each rule by which a notebook's ticket ends, or has to end: facts and a time in, a judgement out."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.pods.results import Result
from jupyter_gq.backends.kubernetes.runs import notebook_judging
from jupyter_gq.backends.kubernetes.runs.notebook_judging import (
    ExternalFacts,
    TicketFacts,
    TicketJudgement,
    judge_ticket,
)
from jupyter_gq.backends.kubernetes.runs.phases import RunEvent, RunPhase
from jupyter_gq.backends.kubernetes.runs.run import TaskDelays, Verdict
from jupyter_gq.backends.kubernetes.shares.preparation import PreparedTask
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.pods.additions import PodAdditions

from .paper import OPTIONS
from .rules import untested_rules

NOW = 10_000.0
POD = PodView(namespace="hub", name="jupyter-ann", uid="u", node="n1", phase="Running")
PENDING = replace(POD, phase="Pending")
UNPLACED = replace(PENDING, node="", unschedulable="Insufficient cpu")
HOMELESS = replace(UNPLACED, unschedulable='persistentvolumeclaim "claim-ann" not found')
SUCCEEDED = TicketJudgement(result=Result(outcome=Outcome.SUCCEEDED))
GOES_ON = TicketJudgement()
READY = PreparedTask(additions=PodAdditions())
FAILURE = Verdict(result=Result(outcome=Outcome.FAILED, sentence="DEVICE_MISMATCH"))


def judged(phase, pod=None, external=None, **fields):
    run = TicketFacts(phase=phase, pod=pod, holds_devices=fields.pop("holds_devices", True), **fields)
    return judge_ticket(run, external or ExternalFacts(), OPTIONS, NOW)


def ended(judgement):
    """How the ticket was ended by a verdict, and what that is to its run."""
    assert judgement.result is None
    return judgement.verdict.result.outcome, judgement.verdict.result.sentence, judgement.verdict.event


def test_the_released_ticket_rule():
    assert judged(RunPhase.RELEASED) == SUCCEEDED
    assert judged(RunPhase.RELEASED, stop_deadline=NOW + 60) == SUCCEEDED
    assert judged(RunPhase.RELEASED, POD) == GOES_ON, "its pod is still there"


def test_the_stopped_ticket_rule():
    assert judged(RunPhase.STOPPING, stop_deadline=NOW + 1) == GOES_ON
    assert judged(RunPhase.STOPPING, stop_deadline=NOW) == SUCCEEDED
    heard = ExternalFacts(hub_has_accepted=True)
    assert judged(RunPhase.STOPPING, external=heard, stop_deadline=NOW + 60) == SUCCEEDED
    assert judged(RunPhase.STOPPING, POD, heard, stop_deadline=NOW) == GOES_ON, "its pod is still there"


def test_the_missing_pod_rule():
    assert ended(judged(RunPhase.KNOWN)) == (Outcome.LOST, "The pod is gone.", RunEvent.ABORTED)
    assert judged(RunPhase.KNOWN, POD) == GOES_ON


def test_the_no_place_rule():
    waits = ExternalFacts(prepared=PreparedTask(sentence="A device of n1 is being reserved."))
    assert judged(RunPhase.WAITING, external=waits) == TicketJudgement(sentence="A device of n1 is being reserved.")
    refused = ExternalFacts(prepared=PreparedTask(sentence="The node n1 is gone.", is_refused=True))
    assert ended(judged(RunPhase.WAITING, external=refused)) == (
        Outcome.REFUSED,
        "The node n1 is gone.",
        RunEvent.REFUSED,
    )


def test_the_attach_rule():
    ready = ExternalFacts(prepared=READY)
    assert judged(RunPhase.WAITING, external=ready) == GOES_ON
    assert judged(RunPhase.CREATING, external=ready, ready_since=NOW - 179) == GOES_ON
    outcome, sentence, event = ended(judged(RunPhase.CREATING, external=ready, ready_since=NOW - 180))
    assert sentence == "The server was not started within 180 seconds, so the share is free again."
    assert (outcome, event) == (Outcome.LOST, RunEvent.ABORTED)


CRASHED = replace(POD, phase="Failed", ended=Ended(exit_code=1, message="OSError: no home"))
EVICTED = replace(POD, disruption="EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("phase", "pod", "wanted"),
    [
        (RunPhase.RUNNING, POD, Outcome.SUCCEEDED),  # deleted by the spawner: the owner stopped the server
        (RunPhase.RUNNING, CRASHED, Outcome.LOST),
        (RunPhase.RUNNING, EVICTED, Outcome.LOST),
        (RunPhase.RUNNING, replace(POD, reason="Evicted"), Outcome.LOST),
        (RunPhase.RELEASED, CRASHED, Outcome.SUCCEEDED),
        (RunPhase.STOPPING, CRASHED, Outcome.SUCCEEDED),
        (RunPhase.STOPPING, EVICTED, Outcome.LOST),
        (RunPhase.ABORTING, POD, Outcome.FAILED),
    ],
)
def test_the_ended_pod_rule(phase, pod, wanted):
    deadline = NOW if phase in (RunPhase.STOPPING, RunPhase.ABORTING) else None
    verdict = FAILURE if phase is RunPhase.ABORTING else None
    judgement = judged(phase, pod, is_over=True, stop_deadline=deadline, verdict=verdict)
    assert judgement.verdict is None
    assert judgement.result.outcome is wanted
    if phase is RunPhase.ABORTING:
        assert judgement.result is FAILURE.result


def test_the_lost_node_rule():
    lost = ExternalFacts(lost="The node n1 is gone.")
    for phase, deadline in ((RunPhase.RUNNING, None), (RunPhase.STOPPING, NOW + 60)):
        judgement = judged(phase, POD, lost, stop_deadline=deadline)
        assert ended(judgement) == (Outcome.LOST, "The node n1 is gone.", RunEvent.ABORTED)
    judgement = judged(RunPhase.ABORTING, POD, lost, stop_deadline=NOW, verdict=FAILURE)
    assert judgement == TicketJudgement(result=FAILURE.result), "the first verdict stays"
    assert judged(RunPhase.RUNNING, POD, lost, is_over=True) == SUCCEEDED, "its pod has ended"


def test_the_unplaced_rule():
    told = "The cluster does not place the pod jupyter-ann yet: Insufficient cpu"
    since = TaskDelays(unplaced=NOW)
    assert judged(RunPhase.STARTING, UNPLACED) == TicketJudgement(sentence=told, delays=since)
    early, late = (TaskDelays(unplaced=NOW - seconds) for seconds in (19, 20))
    assert judged(RunPhase.STARTING, UNPLACED, delays=early) == TicketJudgement(sentence=told, delays=early)
    refused = judged(RunPhase.STARTING, UNPLACED, delays=late, planned_node="n1")
    sentence = "The cluster did not place the pod jupyter-ann on n1 in 20 s: Insufficient cpu"
    assert ended(refused) == (Outcome.REFUSED, sentence, RunEvent.REFUSED)
    assert refused.verdict.back_off == ("n1",)
    assert judged(RunPhase.STARTING, UNPLACED, delays=late, holds_devices=False).verdict is None
    homeless = judged(RunPhase.STARTING, HOMELESS, delays=late, planned_node="n1")
    assert (homeless.verdict.result.outcome, homeless.verdict.back_off) == (Outcome.REFUSED, ()), (
        "no node has its claim"
    )
    assert judged(RunPhase.STARTING, PENDING, delays=late) == GOES_ON, "it was placed, and its delay is forgotten"


def test_the_taken_device_rule():
    taken = ExternalFacts(taken_device="n1/0 could not be held: why")
    judgement = judged(RunPhase.RUNNING, POD, taken)
    assert judgement.verdict is judgement.result is None
    assert judgement.sentence == (
        "The device of the server may be used by others as well, so save your work and start the server again: "
        "n1/0 could not be held: why"
    )


def test_what_keeps_a_container_from_starting_is_told():
    pulling = replace(PENDING, image="lab:1", waiting="ImagePullBackOff", waiting_message="denied")
    told = "The image lab:1 cannot be used (ImagePullBackOff): denied."
    assert judged(RunPhase.STARTING, pulling) == TicketJudgement(sentence=told)


def test_a_pod_that_exists_long_after_its_deadline_is_told():
    terminating = replace(POD, terminating=True)
    assert judged(RunPhase.STOPPING, terminating, stop_deadline=NOW - 59) == GOES_ON
    judgement = judged(RunPhase.STOPPING, terminating, stop_deadline=NOW - 60)
    assert judgement.sentence.startswith("The pod jupyter-ann on n1 should have ended 60 s ago and still exists,")


def test_each_rule_of_the_module_has_a_test():
    assert untested_rules(notebook_judging, globals()) == []

"""The table of the phases of a run: what it allows, what it forbids, and that each run can be removed in the end."""

import ast
from pathlib import Path

import pytest

from jupyter_gq.backends.kubernetes.pods.results import Result
from jupyter_gq.backends.kubernetes.runs import phases
from jupyter_gq.backends.kubernetes.runs.phases import (
    CAUSES,
    CREATES_PODS,
    ENDING,
    MEANINGS,
    TRANSITIONS,
    RunEvent,
    RunPhase,
    next_phase,
)
from jupyter_gq.backends.kubernetes.runs.run import PhaseProgress, Run, Verdict
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain.errors import IllegalTransition

from .rules import untested_rules

ROOM = Path(phases.__file__).parents[1]
#: Phases after the last pod.
OVER = {RunPhase.ENDED, RunPhase.REMOVING}


def a_run(phase):
    return Run(
        id="job-a", number=1, launched_at=0.0, known_at=0.0, progress=PhaseProgress(phase=phase, entered={phase: 1.0})
    )


def verdict(outcome):
    return Verdict(result=Result(outcome=outcome, sentence="why"))


REFUSAL, FAILURE = verdict(Outcome.REFUSED), verdict(Outcome.FAILED)


@pytest.mark.parametrize("phase", list(RunPhase))
@pytest.mark.parametrize("event", list(RunEvent))
def test_each_pair_is_in_the_table_or_raises_and_changes_nothing(phase, event):
    run = a_run(phase)
    if event in TRANSITIONS[phase]:
        run.apply(event, 7.0)
        assert run.phase is TRANSITIONS[phase][event] is next_phase("run", phase, event)
        moved = run.phase is not phase
        assert run.progress.entered == ({phase: 1.0, run.phase: 7.0} if moved else {phase: 1.0})
        return
    with pytest.raises(IllegalTransition, match=rf"job-a \(run 1\) is {phase} .* the event {event}"):
        run.apply(event, 7.0)
    assert run == a_run(phase)


def test_a_job_from_its_launch_to_its_removal():
    run = a_run(RunPhase.KNOWN)
    told = [RunEvent.LAUNCHED, RunEvent.DEVICES_READY, RunEvent.PODS_SEEN, RunEvent.BEGAN, RunEvent.FINISHED]
    passed = []
    for event in (*told, RunEvent.FORGOTTEN):
        run.apply(event, 1.0)
        passed.append(run.phase)
    wanted = ["WAITING", "CREATING", "STARTING", "RUNNING", "ENDED", "REMOVING"]
    assert passed == [RunPhase(name) for name in wanted]


def test_every_phase_and_event_is_described_and_used():
    assert set(TRANSITIONS) == set(MEANINGS) == set(RunPhase)
    assert {event for leaves in TRANSITIONS.values() for event in leaves} == set(CAUSES) == set(RunEvent)


def test_every_phase_but_the_first_can_be_reached():
    assert {after for leaves in TRANSITIONS.values() for after in leaves.values()} == set(RunPhase) - {RunPhase.KNOWN}


@pytest.mark.parametrize("phase", list(RunPhase))
def test_every_run_can_be_forgotten_at_any_time(phase):
    """The controller may not want a run any more, whatever has become of it."""
    assert TRANSITIONS[phase][RunEvent.FORGOTTEN] is RunPhase.REMOVING


@pytest.mark.parametrize("phase", sorted(set(RunPhase) - OVER - CREATES_PODS))
def test_the_last_pod_rule_lets_a_run_end_that_creates_no_pods(phase):
    assert TRANSITIONS[phase][RunEvent.FINISHED] is RunPhase.ENDED


@pytest.mark.parametrize("phase", sorted(OVER | CREATES_PODS))
def test_the_last_pod_rule_keeps_a_run_from_ending_that_creates_pods(phase):
    assert RunEvent.FINISHED not in TRANSITIONS[phase]


@pytest.mark.parametrize("phase", sorted(set(RunPhase) - OVER))
def test_every_run_that_has_not_ended_can_be_stopped(phase):
    run = a_run(phase)
    run.request_stop(9.0, 2.0)
    assert run.stop_deadline == 9.0
    assert run.phase in {RunPhase.STOPPING, RunPhase.RELEASED, RunPhase.ABORTING}


def test_a_later_deadline_adds_no_time():
    run = a_run(RunPhase.RUNNING)
    for deadline in (9.0, 20.0, 7.0):
        run.request_stop(deadline, 2.0)
    assert (run.stop_deadline, run.progress.entered[RunPhase.STOPPING]) == (7.0, 2.0)


@pytest.mark.parametrize("first", [REFUSAL, FAILURE])
@pytest.mark.parametrize("second", [REFUSAL, FAILURE])
def test_the_first_verdict_rule_refuses_a_second_verdict(first, second):
    run = a_run(RunPhase.STARTING)
    run.give_up(first, 2.0)
    with pytest.raises(IllegalTransition):
        run.give_up(second, 3.0)
    assert run.verdict is first


def test_the_first_verdict_rule_lets_a_request_to_stop_replace_a_refusal_only():
    refused, failed = a_run(RunPhase.STARTING), a_run(RunPhase.STARTING)
    refused.give_up(REFUSAL, 2.0)
    failed.give_up(FAILURE, 2.0)
    for run in (refused, failed):
        run.request_stop(9.0, 3.0)
    assert (refused.phase, refused.verdict) == (RunPhase.STOPPING, None)
    assert (failed.phase, failed.verdict) == (RunPhase.ABORTING, FAILURE)


def test_a_run_that_stops_may_still_be_aborted_and_keeps_its_deadline():
    run = a_run(RunPhase.RUNNING)
    run.request_stop(9.0, 2.0)
    run.give_up(FAILURE, 3.0)
    assert (run.phase, run.verdict, run.stop_deadline) == (RunPhase.ABORTING, FAILURE, 9.0)


def test_the_creation_rule_excludes_runs_that_shall_end_or_have_ended():
    assert not CREATES_PODS & (ENDING | OVER)
    assert {run.creates_pods for run in map(a_run, CREATES_PODS)} == {True}
    assert {run.creates_pods for run in map(a_run, set(RunPhase) - CREATES_PODS)} == {False}


def functions_that_assign(attribute):
    """Where an attribute of this name is assigned in the Kubernetes backend: (module, function)."""
    found = set()
    for path in ROOM.rglob("*.py"):
        for function in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)):
            written = (node for node in ast.walk(function) if isinstance(node, ast.Attribute))
            if any(node.attr == attribute and isinstance(node.ctx, ast.Store) for node in written):
                found.add((path.stem, function.name))
    return found


def test_the_single_writer_rule():
    assert functions_that_assign("progress") == {("run", "apply"), ("run", "restart_delays")}
    calls = [path.stem for path in ROOM.rglob("*.py") if "next_phase(" in path.read_text()]
    assert sorted(calls) == ["phases", "run"]


def test_after_an_outage_a_run_keeps_its_phase_and_counts_anew():
    run = a_run(RunPhase.CREATING)
    run.join_since[2] = 10.0
    run.restart_delays(50.0)
    assert (run.phase, run.progress.entered) == (RunPhase.CREATING, {RunPhase.CREATING: 50.0})
    assert run.join_since == {2: 50.0}


@pytest.mark.parametrize("phase", list(RunPhase))
def test_the_no_surprise_rule_names_the_run_the_phase_and_the_event(phase):
    missing = set(RunEvent) - set(TRANSITIONS[phase])
    for event in missing:
        with pytest.raises(IllegalTransition) as caught:
            next_phase("job-a", phase, event)
        assert (caught.value.workload, caught.value.state, caught.value.event) == ("job-a", phase, event)


def test_each_rule_of_the_module_has_a_test():
    assert untested_rules(phases, globals()) == []

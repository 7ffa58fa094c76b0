"""What a pod shows at its end becomes one outcome and one sentence."""

import json

import pytest

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.pods.results import (
    Result,
    combine_results,
    find_trouble,
    name_task,
    read_result,
    read_server_result,
)
from jupyter_gq.backends.protocol import Outcome


def a_pod(code=None, message="", reason="", **fields):
    ended = None if code is None else Ended(exit_code=code, message=message, reason=reason)
    return PodView(namespace="t", name="p", uid="u", node="n1", phase="Failed", image="lab:1", ended=ended, **fields)


def said(outcome, sentence=""):
    return json.dumps({"outcome": outcome, "sentence": sentence})


@pytest.mark.parametrize(
    ("pod", "stopped", "outcome", "words"),
    [
        (a_pod(0, said("SUCCEEDED")), False, Outcome.SUCCEEDED, ""),
        (a_pod(1, said("FAILED", "ValueError: no")), False, Outcome.FAILED, "ValueError: no"),
        (a_pod(0, said("PAUSED")), True, Outcome.PAUSED, ""),
        (a_pod(0, said("LOST")), False, Outcome.SUCCEEDED, ""),
        (a_pod(0, "[1, 2]"), False, Outcome.SUCCEEDED, ""),
        (a_pod(3, "last\nwords"), False, Outcome.LOST, "(exit code 3). Last message: last words."),
        (a_pod(139), False, Outcome.LOST, "signal 11"),
        (a_pod(137, reason="OOMKilled"), False, Outcome.FAILED, "had no memory left"),
        (a_pod(137, reason="OOMKilled", memory_limit=2048), True, Outcome.FAILED, "more than its memory of 2 GiB"),
        (a_pod(127), False, Outcome.FAILED, "The image lab:1 has no jupyter-gq"),
        (a_pod(1, "No module named jupyter_gq"), False, Outcome.FAILED, "has no jupyter-gq"),
        (a_pod(128, "exec: python: not found", "StartError"), False, Outcome.FAILED, "could not be started"),
        (a_pod(143), True, Outcome.KILLED, "in time"),
        (None, True, Outcome.KILLED, "in time"),
        (None, False, Outcome.LOST, "deleted by somebody else"),
        (a_pod(reason="", message="").__class__(namespace="t", name="p", uid="u"), False, Outcome.LOST, "deleted"),
    ],
)
def test_the_end_of_a_task(pod, stopped, outcome, words):
    end = read_result(pod, stopped=stopped)
    assert end.outcome is outcome
    assert words in end.sentence


BEYOND = "The container was killed because it used more than its memory of 16 GiB. Use less memory, or ask for more."


@pytest.mark.parametrize(
    ("said_before", "limit", "sentence"),
    [
        ("", 16384, BEYOND),
        ("", None, "The container was killed because the machine had no memory left for it. Use less memory, or ask"),
        ("The kernel was killed.", 16384, f"The kernel was killed. {BEYOND}"),
        (f"It knew. {BEYOND}", 16384, f"It knew. {BEYOND}"),
    ],
)
def test_a_container_that_was_killed_for_its_memory(said_before, limit, sentence):
    message = said("FAILED", said_before) if said_before else ""
    end = read_result(a_pod(137, message, "OOMKilled", memory_limit=limit), stopped=False)
    assert end.outcome is Outcome.FAILED
    assert end.sentence.startswith(sentence)
    assert end.sentence.count("Use less memory") == 1


def test_another_end_is_not_blamed_on_memory():
    assert read_result(a_pod(1, said("FAILED", "No."), memory_limit=16384), stopped=False).sentence == "No."


LOG = "[I] starting\nTraceback:\n  import lab\nModuleNotFoundError: No module named 'jupyter_gq'\n\n"


@pytest.mark.parametrize(
    ("pod", "outcome", "sentence"),
    [
        (
            a_pod(1, LOG, "Error"),
            Outcome.LOST,
            "The server ended with exit code 1: ModuleNotFoundError: No module named 'jupyter_gq'.",
        ),
        (a_pod(127, reason="Error"), Outcome.LOST, "The server ended with exit code 127."),
        (a_pod(139, reason="Error"), Outcome.LOST, "The server ended with signal 11."),
        (
            a_pod(1, said("SUCCEEDED"), "Error"),
            Outcome.LOST,
            f"The server ended with exit code 1: {said('SUCCEEDED')}.",
        ),
        (a_pod(0, reason="Completed"), Outcome.SUCCEEDED, ""),
        (
            a_pod(128, 'exec: "lab": not found', "StartError"),
            Outcome.FAILED,
            'The container could not be started: exec: "lab": not found.',
        ),
        (
            a_pod(137, LOG, "OOMKilled", memory_limit=2048),
            Outcome.FAILED,
            "The container was killed because it used more than its memory of 2 GiB. Use less memory, or ask for more.",
        ),
        (
            a_pod(143, LOG, "Error", disruption="EvictionByEvictionAPI"),
            Outcome.LOST,
            "Somebody drained the node, or evicted the pod.",
        ),
    ],
)
def test_the_end_of_a_server_is_told_by_the_last_line_of_its_log(pod, outcome, sentence):
    end = read_server_result(pod)
    assert (end.outcome, end.sentence) == (outcome, sentence)


@pytest.mark.parametrize(
    ("reason", "words", "wanted"),
    [
        ("PreemptionByScheduler", "scheduler gave the pod's place", True),
        ("EvictionByEvictionAPI", "drained the node", True),
        ("DeletionByTaintManager", "taint", True),
        ("DeletionByPodGC", "node is gone", False),
        ("TerminationByKubelet", "ran out of resources", False),
        ("SomethingNew", "SomethingNew", False),
    ],
)
def test_who_took_it_away_is_named_whatever_the_exit_code(reason, words, wanted):
    pod = a_pod(1, said("FAILED", "killed"), disruption=reason, disruption_message="because")
    end = read_result(pod, stopped=False)
    assert end.outcome is Outcome.LOST
    assert words in end.sentence
    assert end.sentence.endswith("because.")
    assert end.disrupted is wanted
    assert name_task(end, 1, 4).disrupted is wanted


def test_a_pod_that_somebody_deleted_by_force_is_nobody_elses_fault():
    assert read_result(None, stopped=False).disrupted
    assert not read_result(a_pod(139), stopped=False).disrupted


def test_who_saved_its_state_because_it_was_taken_away_is_paused_and_told_by_whom():
    pod = a_pod(0, said("PAUSED"), disruption="EvictionByEvictionAPI", disruption_message="because")
    assert read_result(pod, stopped=False) == Result(
        outcome=Outcome.PAUSED, sentence="Somebody drained the node, or evicted the pod: because."
    )
    assert read_result(pod, stopped=True).sentence == "", "we had told it to"


def test_what_it_finished_before_it_was_taken_away_is_finished():
    pod = a_pod(0, said("SUCCEEDED"), disruption="EvictionByEvictionAPI")
    assert read_result(pod, stopped=False).outcome is Outcome.SUCCEEDED


def test_a_place_that_the_kubelet_does_not_give_is_refused_and_an_eviction_is_a_loss():
    def status(reason):
        return PodView(namespace="t", name="p", uid="u", node="n1", phase="Failed", reason=reason, message="why")

    refused = read_result(status("UnexpectedAdmissionError"), stopped=False)
    assert refused == Result(outcome=Outcome.REFUSED, sentence="The node n1 rejected the pod: why.")
    assert read_result(status("OutOfnvidia.com/gpu"), stopped=False).outcome is Outcome.REFUSED
    assert read_result(status("Evicted"), stopped=False).outcome is Outcome.LOST


S, F, R, L, K, P = (
    Result(outcome=outcome, sentence=f"{outcome}.")
    for outcome in (
        Outcome.SUCCEEDED,
        Outcome.FAILED,
        Outcome.REFUSED,
        Outcome.LOST,
        Outcome.KILLED,
        Outcome.PAUSED,
    )
)


@pytest.mark.parametrize(
    ("ends", "wanted"), [((S, S), S), ((S, P), P), ((P, K), K), ((K, L), L), ((L, R), R), ((R, F), F)]
)
def test_the_worst_of_a_gang_counts(ends, wanted):
    assert combine_results(dict(enumerate(ends)), len(ends)).outcome is wanted.outcome


def test_the_task_for_which_the_others_were_stopped_is_named():
    assert combine_results({0: K, 1: F, 3: K}, 4) == Result(outcome=Outcome.FAILED, sentence="Task 1 of 4: FAILED.")
    assert name_task(K, 1, 3) == Result(outcome=Outcome.KILLED, sentence="Task 1 of 3: KILLED.")
    assert combine_results({0: F}, 1) == name_task(F, 0, 1) == F


def test_only_some_trouble_may_pass():
    def waits(reason, message="m"):
        pod = PodView(namespace="t", name="p", uid="u", image="i", waiting=reason, waiting_message=message)
        return find_trouble(pod)

    assert waits("InvalidImageName") == ("The image i cannot be used (InvalidImageName): m.", False)
    assert waits("ImagePullBackOff") == ("The image i cannot be used (ImagePullBackOff): m.", True)
    assert waits("CreateContainerConfigError") == ("The container cannot be made: m.", True)
    assert waits("ContainerCreating") == ("", True)
    assert waits("PodInitializing") == waits("") == ("", True)
    assert waits("NewReason") == ("A container of the pod p does not start (NewReason): m.", True)
    assert waits("NewReason", "") == ("A container of the pod p does not start (NewReason).", True)

"""Sentences out of pods and events, of which anything may be missing."""

import pytest

from jupyter_gq.hub.kubernetes.pod_status import complete_event, explain_end, find_exit_code, is_running

RUNNING = {
    "metadata": {"name": "jupyter-ann"},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "notebook", "ready": True}]},
}


def ended(**terminated):
    return {"status": {"containerStatuses": [{"name": "notebook", "state": {"terminated": terminated}}]}}


def disrupted(reason, message=None, status="True"):
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason, "message": message}
    return {"status": {"conditions": [{"type": "Ready", "status": "False"}, condition]}}


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        (None, ""),
        ({}, ""),
        (RUNNING, ""),
        (ended(exitCode=0, reason="Completed"), ""),
        (ended(exitCode=137, reason="OOMKilled"), "Your server ended: it used more memory than its limit."),
        (
            ended(exitCode=1, message="Traceback:\n  import lab\nModuleNotFoundError: No module named 'lab'.\n"),
            "Your server ended with exit code 1: ModuleNotFoundError: No module named 'lab'.",
        ),
        (disrupted("EvictionByEvictionAPI"), "Your server ended: an administrator drained its node."),
        (disrupted("TerminationByKubelet", status="False"), ""),
        (disrupted("SomethingNew", "It is so.\nreally"), "The cluster ended your server (SomethingNew: It is so)."),
        (
            {"status": {"phase": "Failed", "reason": "Evicted", "message": "low on disk."}},
            "The cluster ended your server (Evicted: low on disk).",
        ),
    ],
)
def test_the_end_of_a_pod_has_its_sentence(pod, sentence):
    assert explain_end(pod) == sentence


@pytest.mark.parametrize("missing", ["phase", "podIP", "containerStatuses"])
def test_a_status_that_is_not_complete_yet_is_no_error(missing):
    assert is_running(RUNNING)
    status = {name: value for name, value in RUNNING["status"].items() if name != missing}
    assert not is_running({**RUNNING, "status": status})


def test_a_pod_that_goes_or_has_a_container_that_is_not_ready_does_not_run():
    assert not is_running(None)
    assert not is_running({**RUNNING, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    sidecar = [*RUNNING["status"]["containerStatuses"], {"name": "sidecar", "ready": False}]
    assert not is_running({**RUNNING, "status": {**RUNNING["status"], "containerStatuses": sidecar}})


@pytest.mark.parametrize(
    ("event", "happened"),
    [
        ({"lastTimestamp": "2", "eventTime": "1"}, "2"),
        ({"lastTimestamp": None, "eventTime": "1"}, "1"),
        ({"metadata": {"creationTimestamp": "0"}}, "0"),
        ({}, ""),
    ],
)
def test_an_event_has_everything_that_kubespawner_takes_from_it(event, happened):
    whole = complete_event(event)
    assert whole["lastTimestamp"] == happened
    assert isinstance(
        whole["type"] + whole["message"] + whole["involvedObject"]["name"] + whole["metadata"]["uid"], str
    )


MESH = {"name": "mesh", "ready": True, "state": {"running": {}}}


@pytest.mark.parametrize("phase", ["Running", "Pending"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_server_has_ended_although_a_sidecar_runs_on(phase, index):
    """A sidecar that cannot start keeps the pod pending."""
    containers = [{"name": "notebook", "state": {"terminated": {"exitCode": 3}}}]
    containers.insert(index, MESH)
    assert find_exit_code({"status": {"phase": phase, "containerStatuses": containers}}) == 3
    containers = [{"name": "notebook", "state": {"running": {}}}, {"name": "mesh", "state": {"terminated": {}}}]
    assert find_exit_code({"status": {"phase": phase, "containerStatuses": containers}}) is None


def test_a_pod_that_has_ended_as_a_whole_is_kubespawners_to_judge():
    ended_pod = {"status": {"phase": "Failed", **ended(exitCode=3)["status"]}}
    assert find_exit_code(ended_pod) is None
    assert find_exit_code(None) is None


def test_a_sidecar_that_has_done_its_work_does_not_hold_up_a_server():
    done = {"name": "fetch", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    containers = [done, *RUNNING["status"]["containerStatuses"]]
    assert is_running({**RUNNING, "status": {**RUNNING["status"], "containerStatuses": containers}})
    assert not is_running({**RUNNING, "status": {**RUNNING["status"], "containerStatuses": [MESH]}}), "no server"

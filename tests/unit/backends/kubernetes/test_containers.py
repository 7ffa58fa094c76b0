"""A pod is read by the container that does the work, wherever sidecars stand, and by nothing else."""

import itertools

import pytest

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import pod_view
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.results import find_trouble, read_result
from jupyter_gq.backends.protocol import Outcome

KINDS = [
    ({names.COMPONENT: names.TRAINING}, "runner"),
    ({names.COMPONENT: names.CHECKS}, "runner"),
    ({names.COMPONENT: names.RESERVATIONS}, "hold"),
    ({names.COMPONENT: names.PLACEHOLDERS}, "hold"),
    ({"component": "singleuser-server"}, "notebook"),
]
RUNS, DONE = {"running": {}}, {"terminated": {"exitCode": 0, "message": "done"}}
MAY_BE = ["runner", "hold", "notebook"]


def a_pod(labels, containers, *, inits=(), policy="Never", phase="Running", **status):
    """Containers are (name, state), in the order of the spec; the statuses come in the other order."""

    def shown(pairs):
        return [{"name": n, "imageID": f"{n}@sha256:1", "state": s} for n, s in reversed(pairs) if s is not None]

    return {
        "metadata": {"name": "p", "namespace": "t", "uid": "u", "labels": labels},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": n, "image": f"image/{n}"} for n, _ in containers],
            "initContainers": [{"name": n, "image": f"image/{n}", "restartPolicy": "Always"} for n, _ in inits],
        },
        "status": {
            "phase": phase,
            "containerStatuses": shown(list(containers)),
            "initContainerStatuses": shown(list(inits)),
            **status,
        },
    }


@pytest.mark.parametrize(("labels", "main"), KINDS)
@pytest.mark.parametrize("index", [0, 1, 2])
def test_end_and_image_are_of_the_container_that_does_the_work(labels, main, index):
    """Also beside sidecars that have the name of the main container of another kind of pod."""
    others = [(name, RUNS) for name in MAY_BE if name != main]
    containers = [*others[:index], (main, DONE), *others[index:]]
    view = pod_view(a_pod(labels, containers, inits=[("proxy", RUNS)]))
    assert (view.image, view.image_id) == (f"image/{main}", f"{main}@sha256:1")
    assert view.ended == Ended(exit_code=0, message="done")
    assert (view.is_over, view.finished) == (True, False), "a sidecar runs, so the pod holds its devices"
    going = pod_view(a_pod(labels, [*[(name, DONE) for name, _ in others], (main, RUNS)]))
    assert (going.ended, going.is_over) == (None, False)


@pytest.mark.parametrize(("said", "mebibytes"), [("2Gi", 2048), ("512Mi", 512), (None, None)])
def test_the_memory_limit_is_that_of_the_container_that_does_the_work(said, mebibytes):
    labels, main = KINDS[0]
    pod = a_pod(labels, [("proxy", RUNS), (main, RUNS)])
    proxy, worker = pod["spec"]["containers"]
    proxy["resources"] = {"limits": {"memory": "64Mi"}}
    worker["resources"] = {"limits": {"memory": said}} if said else {}
    assert pod_view(pod).memory_limit == mebibytes


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_statuses_may_come_in_any_order(order):
    pod = a_pod(KINDS[0][0], [("a", RUNS), ("runner", DONE), ("b", DONE)])
    statuses = pod["status"]["containerStatuses"]
    pod["status"]["containerStatuses"] = [statuses[i] for i in order]
    assert pod_view(pod).is_over


@pytest.mark.parametrize(
    ("policy", "code", "deleted", "over"),
    [
        ("Never", 0, False, True),
        ("Never", 1, False, True),
        ("OnFailure", 0, False, True),
        ("OnFailure", 1, False, False),
        ("OnFailure", 1, True, True),
        ("Always", 0, False, False),
        ("Always", 0, True, True),
    ],
)
def test_a_container_that_is_started_again_has_not_ended_for_good(policy, code, deleted, over):
    pod = a_pod(KINDS[-1][0], [("notebook", {"terminated": {"exitCode": code}}), ("mesh", RUNS)], policy=policy)
    if deleted:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    view = pod_view(pod)
    assert (view.is_over, view.ended.exit_code) == (over, code)
    pod["spec"]["containers"][0]["restartPolicy"] = "Never"
    assert pod_view(pod).is_over, "the policy of the container itself counts more"


def test_a_sidecar_that_does_not_start_does_not_hide_the_work():
    stuck = {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}
    began = pod_view(a_pod(KINDS[0][0], [("mesh", stuck), ("runner", RUNS)], phase="Pending"))
    assert (began.has_begun, began.is_over, find_trouble(began)) == (True, False, ("", True))
    over = pod_view(a_pod(KINDS[0][0], [("mesh", stuck), ("runner", DONE)], phase="Pending"))
    assert over.is_over
    waits = pod_view(a_pod(KINDS[0][0], [("mesh", RUNS), ("runner", stuck)], phase="Pending"))
    assert (waits.has_begun, waits.waiting) == (False, "ImagePullBackOff")


def test_an_init_container_that_does_not_start_is_named_by_its_own_image():
    wait = {"waiting": {"reason": "PodInitializing"}}
    stuck = {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}
    pod = pod_view(a_pod(KINDS[0][0], [("runner", wait)], inits=[("ok", DONE), ("proxy", stuck)], phase="Pending"))
    assert find_trouble(pod) == ("The image image/proxy cannot be used (ImagePullBackOff): denied.", True)
    crash = {"waiting": {"reason": "CrashLoopBackOff"}}
    later = pod_view(a_pod(KINDS[0][0], [("runner", RUNS)], inits=[("proxy", crash)]))
    assert find_trouble(later) == ("", True), "the work runs"


def test_a_sidecar_that_crashes_again_and_again_is_told_with_the_words_of_the_kubelet():
    wait = {"waiting": {"reason": "PodInitializing"}}
    crash = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=mesh"}}
    pod = pod_view(a_pod(KINDS[0][0], [("runner", wait)], inits=[("mesh", crash)], phase="Pending"))
    assert find_trouble(pod) == (
        "A container of the pod p does not start (CrashLoopBackOff): back-off 5m0s restarting failed container=mesh.",
        True,
    )


def test_a_pod_whose_init_container_failed_was_not_deleted_by_somebody():
    failed = {"terminated": {"exitCode": 3, "message": "no\nroute"}}
    pod = a_pod(KINDS[0][0], [("runner", {"waiting": {"reason": "PodInitializing"}})], inits=[("net", failed)])
    pod["status"]["phase"] = "Failed"
    end = read_result(pod_view(pod), stopped=False)
    told = "The pod p ended before its container began: its init container net ended with exit code 3: no route."
    assert (end.outcome, end.sentence) == (Outcome.LOST, told)


def test_a_sidecar_that_ended_beside_the_work_did_not_keep_it_from_beginning():
    crashed = {"terminated": {"exitCode": 137}}
    view = pod_view(a_pod(KINDS[4][0], [("notebook", RUNS)], inits=[("mesh", crashed)]))
    assert (view.has_begun, view.never_began) == (True, "")


def test_a_pod_that_waits_for_its_scheduling_gates_says_which():
    pod = a_pod(KINDS[0][0], [("runner", None)], phase="Pending")
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    view = pod_view(pod)
    assert (view.unschedulable, view.held_back) == (
        "",
        "its scheduling gates have not been removed: kueue.x-k8s.io/admission",
    )
    del pod["spec"]["schedulingGates"]
    pod["status"]["conditions"][0] |= {"reason": "SchedulerError", "message": "timed out"}
    assert pod_view(pod).held_back == "SchedulerError: timed out"


def test_pods_of_other_makers_are_read_by_their_first_container():
    view = pod_view(a_pod({}, [("main", DONE), ("mesh", RUNS)]))
    assert (view.image, view.is_over) == ("image/main", True)

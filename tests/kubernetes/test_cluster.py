"""What the other tests of this folder stand on."""

from collections import Counter

import pytest
from kubernetes.client import ApiException, CoreV1Api

from tests.kubernetes.waiting import until


def test_rights_are_real_and_tokens_speak_for_their_account(control_plane, namespace_set):
    mark = control_plane.mark()
    service = CoreV1Api(control_plane.client(namespace_set.service_user))
    with pytest.raises(ApiException) as refused:
        service.list_namespaced_pod(namespace_set.train)
    assert refused.value.status == 403
    assert namespace_set.service_user in refused.value.body
    assert [r.status for r in control_plane.requests(mark, user=namespace_set.service_user)] == [403]


def test_the_api_server_comes_back_with_what_it_knew(control_plane, namespace_set):
    control_plane.stop_api()
    control_plane.start_api()
    assert control_plane.core.read_namespace(namespace_set.hub).metadata.name == namespace_set.hub


def _pinned(name, node, **labels):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    gpu = {"nvidia.com/gpu": "1"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "affinity": {"nodeAffinity": affinity},
            "containers": [{"name": "main", "image": "image", "resources": {"requests": gpu, "limits": gpu}}],
        },
    }


def test_pods_run_on_as_many_devices_as_there_are_and_others_wait(control_plane, namespace_set, kwok):
    nodes = kwok.add_nodes(20, gpus=8)
    core, namespace = control_plane.core, namespace_set.hub
    for number in range(170):
        core.create_namespaced_pod(namespace, _pinned(f"pod-{number}", nodes[number % 20]))

    def phases():
        return Counter(pod.status.phase for pod in core.list_namespaced_pod(namespace).items)

    until(lambda: phases() == {"Running": 160, "Pending": 10}, phases, every=0.2)
    waiting = core.list_namespaced_pod(namespace, field_selector="status.phase=Pending").items
    until(
        lambda: (
            "Insufficient nvidia.com/gpu"
            in core.read_namespaced_pod(waiting[0].metadata.name, namespace).status.conditions[0].message
        ),
        "the scheduler's sentence",
    )
    core.delete_collection_namespaced_pod(namespace)
    until(lambda: not core.list_namespaced_pod(namespace).items, "all pods are gone")


def test_pods_of_a_node_do_what_its_name_says(control_plane, namespace_set, kwok):
    core, namespace = control_plane.core, namespace_set.hub
    (slow,), (failing,), (ending,) = (kwok.add_nodes(1, 2, name=name) for name in ("slow-end", "failing", "ending"))
    for node in (slow, failing, ending):
        core.create_namespaced_pod(namespace, _pinned(node, node))

    def phase(name):
        return core.read_namespaced_pod(name, namespace).status.phase

    for node, wanted in ((slow, "Running"), (failing, "Failed"), (ending, "Succeeded")):
        until(lambda node=node, wanted=wanted: phase(node) == wanted, f"{node}: {wanted}")
    core.delete_namespaced_pod(slow, namespace)
    assert core.read_namespaced_pod(slow, namespace).metadata.deletion_timestamp
    until(lambda: slow not in [p.metadata.name for p in core.list_namespaced_pod(namespace).items], "the slow end")

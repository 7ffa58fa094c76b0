"""What a cluster may not change in an object that the service creates."""

import copy

import pytest

from jupyter_gq.backends.kubernetes.api.changes import find_changes
from jupyter_gq.backends.kubernetes.objects.names import SLOTS, WORKLOAD

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HERE, ELSEWHERE = ({"key": "metadata.name", "operator": "In", "values": [node]} for node in ("n1", "n2"))
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
TERM = {"matchFields": [HERE]}
PIN = {REQUIRED: {"nodeSelectorTerms": [TERM]}}
POD = {
    "metadata": {"name": "p", "labels": {WORKLOAD: "job-1", "team": "x"}, "annotations": {SLOTS: "n1/0"}},
    "spec": {
        "affinity": {"nodeAffinity": PIN},
        "containers": [
            {"name": "runner", "resources": {"limits": {GPU: "1", "vendor.example/npu": "1", "memory": "2Gi"}}}
        ],
    },
}


def changed(path, value):
    """The pod with another value at this path of keys."""
    pod = copy.deepcopy(POD)
    part = pod
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return pod


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("metadata", "labels"), {}, WORKLOAD),
        (("metadata", "labels"), None, WORKLOAD),
        (("metadata", "labels", WORKLOAD), "job-2", WORKLOAD),
        (("metadata", "annotations"), {"other": "1"}, SLOTS),
        (("spec", "affinity"), None, "its node"),
        (("spec", "affinity"), {"nodeAffinity": {}}, "its node"),
        (
            ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"),
            [{"matchFields": [ELSEWHERE]}],
            "its node",
        ),
        (("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"), [TERM, {"matchFields": []}], "its node"),
        (("spec", "containers", 0, "resources"), {"limits": {"vendor.example/npu": "1"}}, GPU),
        (("spec", "containers", 0, "resources", "limits", GPU), "2", GPU),
        (("spec", "containers", 0, "resources", "limits", "amd.com/gpu"), "1", "amd.com/gpu"),
        (("spec", "containers", 0, "resources", "limits", "vendor.example/npu"), "2", "vendor.example/npu"),
        (
            ("spec", "initContainers"),
            [{"name": "mesh", "resources": {"limits": {"nvidia.com/mig-1g": 1}}}],
            "nvidia.com/mig-1g",
        ),
    ],
)
def test_what_the_service_knows_or_counts_a_pod_by_is_told(path, value, told):
    assert find_changes(POD, changed(path, value)) == [told]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels", "mesh"), "on"),
        (("metadata", "labels", "team"), "y"),
        (("spec", "affinity", "podAntiAffinity"), {}),
        (("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"), [{"weight": 1}]),
        (("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"), [{**TERM, "matchExpressions": [ARCH]}]),
        (("spec", "initContainers"), [{"name": "mesh", "resources": {"limits": {"vpc.amazonaws.com/pod-eni": "1"}}}]),
        (("spec", "containers", 0, "resources", "limits", GPU), 1),
        (("spec", "serviceAccountName"), "default"),
    ],
)
def test_all_else_is_the_affair_of_the_cluster(path, value):
    assert find_changes(POD, changed(path, value)) == []


def test_of_a_job_the_template_of_its_pods_counts():
    def job(pod):
        return {"metadata": POD["metadata"], "spec": {"template": pod}}

    assert find_changes(job(POD), job(POD)) == []
    assert find_changes(job(POD), job(changed(("spec", "affinity"), None))) == ["its node"]
    assert find_changes(job(POD), job(changed(("metadata", "labels"), {}))) == [WORKLOAD]


def test_an_object_without_containers_has_neither_node_nor_devices():
    service = {"metadata": {"labels": {WORKLOAD: "job-1"}}, "spec": {"clusterIP": "None"}}
    assert find_changes(service, {**service, "spec": {"clusterIP": "None", "ports": []}}) == []

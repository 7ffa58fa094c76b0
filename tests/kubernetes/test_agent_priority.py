"""An agent on a node that is full, with the real scheduler: it gets in, and the least important pod goes."""

import pytest

from tests.kubernetes.backend_world import make_runtime_class
from tests.kubernetes.chart import rendered
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import until


@pytest.fixture
def node(kwok):
    """With 128 cores, all of which are asked for below."""
    (node,) = kwok.add_nodes(1, gpus=1, labels={"nvidia.com/gpu.present": "true"})
    return node


@pytest.fixture
def raw(control_plane):
    client, kept = Raw(control_plane), []
    yield lambda found: (client.apply(found), kept.append(found))
    for found in kept:
        client.delete(found)
    client.close()


def pod_with(cores, node, **spec):
    container = {"name": "a", "image": "i", "resources": {"requests": {"cpu": cores}}}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    place = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return {"spec": {"containers": [container], "affinity": place, "terminationGracePeriodSeconds": 0, **spec}}


@pytest.mark.parametrize("beside", ["job", "other"])
def test_it_gets_a_place_and_a_notebook_goes_only_where_no_job_can(beside, control_plane, namespace_set, node, raw):
    core, made = control_plane.core, namespace_set
    make_runtime_class(control_plane)
    found = rendered(made)
    for each in found:
        if each["kind"] == "PriorityClass":
            raw(each)
    training = {"priorityClassName": f"{made.release}-gq-training"} if beside == "job" else {}
    core.create_namespaced_pod(made.hub, {"metadata": {"name": "notebook"}, **pod_with("64", node)})
    core.create_namespaced_pod(made.hub, {"metadata": {"name": beside}, **pod_with("64", node, **training)})

    def places(namespace):
        pods = core.list_namespaced_pod(namespace).items
        return {pod.metadata.name: pod.spec.node_name for pod in pods if not pod.metadata.deletion_timestamp}

    until(lambda: places(made.hub) == {"notebook": node, beside: node}, "the node is full")

    agents = next(each for each in found if each["kind"] == "DaemonSet")
    agents["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    raw(agents)
    until(lambda: list(places(made.nodes).values()) == [node], lambda: f"the agent is bound: {places(made.nodes)}")
    (left,) = places(made.hub)
    assert beside == "other" or left == "notebook"
    core.delete_namespaced_pod(left, made.hub)
    until(lambda: places(made.hub) == {}, "room for the next one")

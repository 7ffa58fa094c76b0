"""What the other tests of this folder stand on."""

import asyncio
import json
from collections import Counter

import pytest
from kubernetes.client import ApiException, CoreV1Api

from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.backends.kubernetes.api.reflector import Copy, Reflector
from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import pod_view
from tests.kubernetes.control_plane import ADMIN
from tests.kubernetes.waiting import until
from tests.patience import scaled


def test_rights_are_real_and_tokens_speak_for_their_account(control_plane, namespace_set):
    mark = control_plane.mark()
    service = CoreV1Api(control_plane.client(namespace_set.service_user))
    with pytest.raises(ApiException) as refused:
        service.list_namespaced_pod(namespace_set.train)
    assert refused.value.status == 403
    assert namespace_set.service_user in refused.value.body
    assert [r.status for r in control_plane.requests(mark, user=namespace_set.service_user)] == [403]


async def _listed(reflector):
    reflector.start()
    async with asyncio.timeout(scaled(60)):
        await reflector.synced.wait()
    return {view.name for view in reflector.copy}


@pytest.mark.asyncio
async def test_a_list_of_three_pages_is_all_there_is(control_plane, namespace_set):
    core, namespace, made = control_plane.core, namespace_set.nodes, {f"page-{number}" for number in range(5)}
    for name in made:
        core.create_namespaced_pod(namespace, _pinned(name, "nowhere"))
    mark, agent = control_plane.mark(), "jupyter-gq/pages"
    cluster = Cluster.of(control_plane.config_for(ADMIN), page=2, agent=agent)
    reflector = Reflector(cluster, PODS, namespace=namespace, trim=pod_view, copy=Copy(lambda before, after: None))
    try:
        assert await _listed(reflector) == made
        assert len(control_plane.requests(mark, agent=agent, verb="list", status=200)) == 3
    finally:
        reflector.end()
        cluster.close()
        core.delete_collection_namespaced_pod(namespace)


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

    def conditions():
        """Counts phases, and keeps what the scheduler says of those that it did not bind."""
        listed = json.loads(core.list_namespaced_pod(namespace, _preload_content=False).data)["items"]
        messages = [c.get("message", "") for pod in listed for c in pod["status"].get("conditions", ())]
        return Counter(pod["status"]["phase"] for pod in listed), "".join(messages)

    until(lambda: conditions()[0] == {"Running": 160, "Pending": 10}, conditions, every=0.2)
    until(lambda: conditions()[1].count("Insufficient nvidia.com/gpu") == 10, conditions, every=0.2)
    core.delete_collection_namespaced_pod(namespace)
    until(lambda: not conditions()[0], conditions, every=0.2)


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

"""Cordoning a node: as `kubectl cordon` does, seen at once, and refused with a remedy without the right to do so."""

import asyncio

import pytest

from jupyter_gq.backends.kubernetes.api.errors import Unreachable, error_of
from jupyter_gq.domain.errors import Conflict

from .paper_backend import PaperBackend


class PatchesNodes:
    """A cluster in which the service may patch nodes."""

    def __init__(self):
        self.bodies = []

    async def patch(self, resource, namespace, name, body):
        self.bodies.append((resource.plural, name, body))
        spec = {"unschedulable": True} if body["spec"]["unschedulable"] else {}
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "2"}}
        return {"metadata": {"name": name, "resourceVersion": "500"}, "spec": spec, "status": ready}


class ForbidsPatches:
    """A cluster in which the service may not patch nodes."""

    async def patch(self, resource, namespace, name, body):
        raise error_of(403, b'{"message": "nodes \\"n1\\" is forbidden"}', "change the node n1")


class IsAway:
    """An API server that does not answer."""

    async def patch(self, resource, namespace, name, body):
        raise Unreachable("The API server cannot be reached.")


def on_cluster(cluster):
    paper = PaperBackend("n1")
    paper.runs.capabilities.cordon._cluster = cluster
    return paper, paper.runs.capabilities.cordon


def test_a_cordoned_node_is_seen_at_once_and_takes_nothing_new():
    cluster = PatchesNodes()
    paper, cordon = on_cluster(cluster)
    assert not cordon.is_cordoned("n1")
    asyncio.run(cordon.set_cordoned("n1", cordoned=True))
    assert cluster.bodies == [("nodes", "n1", {"spec": {"unschedulable": True}})]
    assert cordon.is_cordoned("n1")
    asyncio.run(paper.runs.observe())
    (node,) = paper.runs.nodes()
    assert (node.closed, node.draining) == ("n1 is cordoned", True)


def test_an_uncordon_removes_the_mark_as_kubectl_does():
    cluster = PatchesNodes()
    paper, cordon = on_cluster(cluster)
    paper.node(cordoned=True)
    assert cordon.is_cordoned("n1")
    asyncio.run(cordon.set_cordoned("n1", cordoned=False))
    assert cluster.bodies == [("nodes", "n1", {"spec": {"unschedulable": None}})]
    assert not cordon.is_cordoned("n1")


@pytest.mark.parametrize(("cordoned", "verb"), [(True, "cordon"), (False, "uncordon")])
def test_without_the_right_the_refusal_names_the_command_and_the_value(cordoned, verb):
    _, cordon = on_cluster(ForbidsPatches())
    with pytest.raises(Conflict) as refused:
        asyncio.run(cordon.set_cordoned("n1", cordoned=cordoned))
    assert str(refused.value) == (
        f"The service has no right to {verb} nodes of this cluster. Run `kubectl {verb} n1`, "
        "or set service.cordonNodes to true in the values of the chart."
    )


def test_an_api_server_that_is_away_is_no_missing_right():
    _, cordon = on_cluster(IsAway())
    with pytest.raises(Unreachable):
        asyncio.run(cordon.set_cordoned("n1", cordoned=True))


@pytest.mark.parametrize("leaves", [True, False])
def test_what_leaves_a_cordoned_node_follows_the_setting(leaves):
    assert PaperBackend("n1", leave_cordoned=leaves).runs.capabilities.cordon.drains is leaves

"""Whether the words of kube-scheduler about a pod that is bound to one node blame that node."""

import pytest

from jupyter_gq.backends.kubernetes.pods.unplaced import blames_node


@pytest.mark.parametrize(
    "words",
    [
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.",
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 node(s) didn't match Pod's node affinity.",
        "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector.",
        "0/2 nodes are available: 1 node(s) exceed max volume count",
        "no node suits it",
        "",
    ],
)
def test_a_node_lacks_something(words):
    assert blames_node(words)


@pytest.mark.parametrize(
    "words",
    [
        '0/2 nodes are available: persistentvolumeclaim "home-ann" not found. preemption: not helpful.',
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 Insufficient cpu.",
        "0/2 nodes are available: 2 node(s) had no available volume zone.",
        "0/2 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 1 Insufficient cpu.",
        "0/1 nodes are available: 1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).",
        '0/2 nodes are available: waiting for ResourceClaim "gpu" to be created.',
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        "0/2 nodes are available: 1 node(s) didn't match Pod's node selector, 1 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity].",
    ],
)
def test_a_pod_fits_nowhere(words):
    assert not blames_node(words)

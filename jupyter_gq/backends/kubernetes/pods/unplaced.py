"""Judgement of why the cluster's scheduler does not place a pod: for the sake of its node, or of the pod itself.

Each pod is bound to the node that the core chose. So the scheduler's words are about that node, unless a part of them
holds for the pod wherever it goes: a claim that is missing, or a selector that no node has. A volume that cannot be
reached from the node may be reached from another one, so the pod has to go elsewhere.
"""

import re

#: Words of kube-scheduler, in lower case, about volumes and claims of the pod.
_OF_THE_POD = re.compile(r"persistentvolumeclaim|unbound immediate|non-existent pv|resourceclaim|\bclaim\b.*not found")
#: "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't satisfy plugin(s)
#: [NodeAffinity]". The second half is said of the nodes to which the pod is not bound.
_NODES = re.compile(r"0/(\d+) nodes are available")
_UNMATCHED = re.compile(
    r"(\d+) node\(s\) didn't (?:match pod's node (?:affinity|selector)|satisfy plugin\(s\) \[nodeaffinity\])"
)


def blames_node(words: str) -> bool:
    """Tell whether the scheduler's words give a reason that holds for the node rather than for the pod.

    Words that are not understood, and none at all, blame the node.
    """
    words = words.lower()
    if _OF_THE_POD.search(words):
        return False
    nodes = _NODES.search(words)
    return nodes is None or int(nodes.group(1)) != sum(map(int, _UNMATCHED.findall(words)))

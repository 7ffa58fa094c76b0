"""Many nodes whose pods are only said to run: for scale, and for what is hard to make a real process do.

What its pods do is in kwok-stages.yaml. It takes care of the nodes that it made, of no others, so stand-in kubelets can
be in the same cluster.
"""

import itertools
from pathlib import Path

from kubernetes.client import ApiException

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.waiting import until

_STAGES = Path(__file__).with_name("kwok-stages.yaml")
#: The label of the nodes that are its: kwok looks at labels by its watch, so it lets go of a node that loses it.
_OURS = ("kwok.x-k8s.io/node", "fake")


class Kwok:
    """Start it, add nodes, remove them. It ends with the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._numbers = itertools.count(1)
        self._nodes: set[str] = set()
        #: Of the plane, when it was started.
        self._api_starts = 0

    def start(self) -> None:
        """Begin, or begin anew: then only if the API server was away since.

        What it looks at after such a gap it may overlook: of 160 pods that were bound a second after it was back, it
        started none.
        """
        if self._api_starts == self.plane.api_starts:
            return
        self._api_starts = self.plane.api_starts
        self.plane.programs.stop("kwok")
        command = [self.plane.tools / "kwok", f"--kubeconfig={self.plane.kubeconfig('kwok', ('system:masters',))}"]
        command += [f"--config={_STAGES}", f"--manage-nodes-with-label-selector={'='.join(_OURS)}"]
        # It renews a lease four times in that time.
        command += [
            f"--node-lease-duration-seconds={self.plane.node_silent_after}",
            "--cidr=127.32.0.0/11",
            "--node-ip=127.0.0.1",
        ]
        self.plane.programs.start("kwok", command)

    def add_nodes(
        self, count=1, gpus=8, *, name="kwok", labels=None, taints=(), resource="nvidia.com/gpu"
    ) -> list[str]:
        """Nodes with so many devices each, ready for pods; their names begin with `name` and are new."""
        names = [f"{name}-{next(self._numbers)}" for _ in range(count)]
        for node in names:
            self.plane.core.create_node(_node(node, {resource: str(gpus)} if gpus else {}, labels or {}, list(taints)))
        self._nodes.update(names)
        for node in names:
            until(lambda node=node: self._takes_pods(node), lambda: f"a ready node\n{self.plane.programs.log('kwok')}")
        return names

    def remove_nodes(self, *names: str) -> None:
        """Take them away; their pods go with them, when the controllers have seen it."""
        for name in names:
            self._nodes.discard(name)
            try:
                self.plane.core.delete_node(name)
            except ApiException as error:
                if error.status != 404:
                    raise

    def remove_all(self) -> None:
        self.remove_nodes(*self._nodes)

    def lose(self, name: str) -> None:
        """Nobody speaks for this node any more: it is Unknown after `NODE_SILENT_AFTER` seconds."""
        self.plane.core.patch_node(name, {"metadata": {"labels": {_OURS[0]: "lost"}}})

    def find(self, name: str) -> None:
        """Somebody speaks for it again."""
        self.plane.core.patch_node(name, {"metadata": {"labels": {_OURS[0]: _OURS[1]}}})

    def _takes_pods(self, name: str) -> bool:
        node = self.plane.core.read_node(name)
        ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
        return ready and not any("node.kubernetes.io/" in taint.key for taint in node.spec.taints or ())


def _node(name, devices, labels, taints):
    room = {"cpu": "128", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "250", **devices}
    known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "metadata": {"name": name, "labels": known | dict([_OURS]) | labels},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room, "nodeInfo": _INFO},
    }


#: The API wants each of them.
_INFO = {
    **dict.fromkeys(["bootID", "machineID", "systemUUID", "osImage", "kubeProxyVersion"], ""),
    "architecture": "amd64",
    "operatingSystem": "linux",
    "containerRuntimeVersion": "kwok",
    "kernelVersion": "kwok",
    "kubeletVersion": "v1.36.3",
}

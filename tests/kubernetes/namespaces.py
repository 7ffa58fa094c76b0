"""The namespaces and accounts of an installation of the product."""

import secrets
from dataclasses import dataclass

from kubernetes.client import ApiException

from tests.kubernetes.control_plane import ControlPlane, account
from tests.kubernetes.waiting import until

#: The service accounts, by the namespace that they are in.
ACCOUNTS = {"hub": ("hub", "gq-service"), "nodes": ("gq-agent", "gq-reservation"), "train": ("gq-runner",)}
#: What the Pod Security of each namespace lets in.
_SECURITY = {"hub": "baseline", "nodes": "privileged", "train": "restricted"}


@dataclass(frozen=True, kw_only=True, slots=True)
class NamespaceSet:
    """Names of one installation; the accounts have no rights yet, apart from those that everybody has."""

    #: The name of the release, and the value of the label `jupyter-gq.org/installation`.
    release: str
    #: Where the Hub and the service run, and the notebooks.
    hub: str
    #: Where agents and reservations run.
    nodes: str
    #: Where jobs run.
    train: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.hub, self.nodes, self.train)

    @property
    def service_user(self) -> str:
        return account(self.hub, "gq-service")

    @property
    def hub_user(self) -> str:
        return account(self.hub, "hub")

    @property
    def agent_user(self) -> str:
        return account(self.nodes, "gq-agent")

    @property
    def runner_user(self) -> str:
        return account(self.train, "gq-runner")


def make_namespaces(plane: ControlPlane) -> NamespaceSet:
    """Fresh ones, with their accounts."""
    release = f"gq{secrets.token_hex(3)}"
    made = NamespaceSet(release=release, hub=f"{release}-hub", nodes=f"{release}-gq-nodes", train=f"{release}-gq-train")
    for room, names in ACCOUNTS.items():
        namespace = getattr(made, room)
        labels = {"pod-security.kubernetes.io/enforce": _SECURITY[room]}
        plane.core.create_namespace({"metadata": {"name": namespace, "labels": labels}})
        for name in ("default", *names):
            _make_account(plane, namespace, name)
    return made


def _make_account(plane: ControlPlane, namespace: str, name: str) -> None:
    try:
        plane.core.create_namespaced_service_account(namespace, {"metadata": {"name": name}})
    except ApiException as error:
        if error.status != 409:  # the controller manager was faster with `default`
            raise


def delete_namespaces(plane: ControlPlane, made: NamespaceSet) -> None:
    """Take everything away, without waiting for its end."""
    for namespace in made.all:
        plane.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        plane.core.delete_namespace(namespace)


def make_claim(plane: ControlPlane, namespace: str, name: str) -> None:
    """A claim that is bound: to the stand-in kubelets, a folder that outlives the pods."""
    room = {"storage": "1Gi"}
    bound = {"namespace": namespace, "name": name, "kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = common | {"capacity": room, "hostPath": {"path": "/dev/null"}, "claimRef": bound}
    plane.core.create_persistent_volume({"metadata": {"name": f"{namespace}-{name}"}, "spec": volume})
    claim = common | {"volumeName": f"{namespace}-{name}", "resources": {"requests": room}}
    plane.core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": name}, "spec": claim})
    read = plane.core.read_namespaced_persistent_volume_claim
    until(lambda: read(name, namespace).status.phase == "Bound", f"the claim {name} is bound")

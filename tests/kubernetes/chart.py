"""The chart in a real cluster: rendered for the namespaces of a test, its roles in force, installed by Helm."""

from pathlib import Path

import yaml

from tests.chart.render import CHART, IMAGE, run_helm
from tests.kubernetes.namespaces import NamespaceSet
from tests.kubernetes.raw import Raw

_RIGHTS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def rendered(made: NamespaceSet, *files: Path, values=(), helm: str = "") -> list[dict]:
    """Every object of the chart, for these namespaces; `values` as `--set` takes them."""
    options = [option for file in files for option in ("--values", str(file))]
    options += [option for value in (*_rooms(made), *values) for option in ("--set", value)]
    done = run_helm("template", made.release, str(CHART), "--namespace", made.hub, *options, helm=helm)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.load_all(done.stdout, yaml.CSafeLoader) if found]


def _rooms(made: NamespaceSet) -> tuple[str, ...]:
    return f"image.name={IMAGE}", f"nodes.namespace={made.nodes}", f"training.namespace={made.train}"


def grant_rights(raw: Raw, made: NamespaceSet, *, values=()) -> list[dict]:
    """Give the accounts of these namespaces what the chart gives them; those of the cluster are for `revoke`."""
    rights = [found for found in rendered(made, values=values) if found["kind"] in _RIGHTS]
    for found in rights:
        raw.apply(found)
    return rights


def revoke(raw: Raw, rights: list[dict]) -> None:
    """Take away what does not go with the namespaces."""
    for found in rights:
        if found["kind"].startswith("Cluster"):
            raw.delete(found)


def at_addresses_of_their_own(deployment: dict) -> None:
    """All pods are processes of this machine: one that listens everywhere would be in the way of the next."""
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    environment.insert(0, {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    for variable in environment:
        if variable["name"] == "JUPYTERHUB_SERVICE_URL":
            variable["value"] = "http://$(POD_IP):8089"

"""The service runs from what the chart renders, and from nothing else: its command, files, environment and rights."""

import base64

import httpx
import pytest

from tests.kubernetes.chart import at_addresses_of_their_own, rendered
from tests.kubernetes.namespaces import make_claim
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import until
from tests.patience import scaled

#: The stand-in kubelet tells a pod by a file where the API server is.
VALUES = (
    "agent.enabled=false",
    "config.extra=import os; c.KubernetesBackend.kubeconfig = os.environ['KUBECONFIG']",
)


@pytest.fixture(scope="module")
def raw(control_plane):
    client = Raw(control_plane)
    yield client
    client.close()


@pytest.fixture
def installed(control_plane, namespace_set, make_kubelet, raw):
    """Everything of the chart but the volume: nobody makes volumes here."""
    make_kubelet("installed-a", gpus=0)
    state = f"{namespace_set.release}-gq-state"
    make_claim(control_plane, namespace_set.hub, state)
    objects = [each for each in rendered(namespace_set, values=VALUES) if each["metadata"]["name"] != state]
    for each in objects:
        if each["kind"] == "Deployment":
            at_addresses_of_their_own(each)
        raw.apply(each)
    yield namespace_set
    for each in objects:
        if each["kind"].startswith("Cluster") or each["kind"] == "PriorityClass":
            raw.delete(each)


def test_the_service_of_the_chart_waits_for_the_hubs_secret_and_then_gets_ready(installed, control_plane, raw):
    made = installed
    mark = control_plane.mark()
    pods = until(lambda: control_plane.core.list_namespaced_pod(made.hub).items, "the service's pod")
    name = pods[0].metadata.name

    def state():
        statuses = control_plane.core.read_namespaced_pod(name, made.hub).status.container_statuses or []
        return statuses[0].state if statuses else None

    until(lambda: (now := state()) and now.waiting and "hub" in (now.waiting.message or ""), lambda: str(state()))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub", "namespace": made.hub}}
    token = base64.b64encode(b"a token of the hub").decode()
    raw.apply({**secret, "data": {"hub.services.jupyter-gq.apiToken": token}})

    pod = until(lambda: (now := state()) and now.running and pod_of(control_plane, made, name), lambda: str(state()))
    root = f"http://{pod.status.pod_ip}:8089/services/jupyter-gq/api/v1"
    until(lambda: answers(f"{root}/ready"), lambda: f"ready: {said(root)}")
    health = httpx.get(f"{root}/health", timeout=scaled(10)).json()
    assert (health["status"], health["code"]) == ("ok", "ok"), health

    mine = control_plane.requests(mark, user=made.service_user)
    assert {(each.verb, each.resource) for each in mine} >= {
        ("watch", "nodes"),
        ("watch", "pods"),
        ("create", "leases"),
    }
    assert [each for each in mine if each.status == 403] == [], "a right is missing"


def pod_of(plane, made, name):
    return plane.core.read_namespaced_pod(name, made.hub)


def answers(url):
    try:
        return httpx.get(url, timeout=scaled(10)).status_code == 200
    except httpx.HTTPError:
        return False


def said(root):
    try:
        return httpx.get(f"{root}/ready", timeout=scaled(10)).text
    except httpx.HTTPError as error:
        return repr(error)

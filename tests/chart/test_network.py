"""Who may talk to whom, as the design says it."""

import pytest

from tests.chart.policies import Peer, connects
from tests.chart.render import NAMESPACE, named, objects
from tests.chart.test_objects import to_add_to_the_hub

NODES, TRAIN = "gq-gq-nodes", "gq-gq-train"


def ours(component, namespace, **more):
    labels = {
        "app.kubernetes.io/name": "jupyter-gq",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/instance": "gq",
    }
    return Peer(namespace=namespace, labels={**labels, **more.pop("labels", {})}, **more)


SERVICE = ours("gq-service", NAMESPACE, ports={"http": 8089})
AGENT = ours("gq-agent", NODES)
RESERVATION = ours("gq-reservation", NODES)
JOB = ours("gq-training", TRAIN, labels={"jupyter-gq.org/workload": "a"})
TASK = ours("gq-training", TRAIN, labels={"jupyter-gq.org/workload": "a", "jupyter-gq.org/task": "1"})
OTHER_INSTALLATION = Peer(namespace=TRAIN, labels={**JOB.labels, "app.kubernetes.io/instance": "other"})
HUB = Peer(namespace=NAMESPACE, labels={"app": "jupyterhub", "component": "hub", "release": "jhub"})
PROXY = Peer(namespace=NAMESPACE, labels={"app": "jupyterhub", "component": "proxy", "release": "jhub"})
AUTOHTTPS = Peer(namespace=NAMESPACE, labels={"app": "jupyterhub", "component": "autohttps", "release": "jhub"})
NOTEBOOK = Peer(namespace=NAMESPACE, labels={"app": "jupyterhub", "component": "singleuser-server"})
PROMETHEUS = Peer(namespace="monitoring", labels={"app.kubernetes.io/name": "prometheus"})
STRANGER = Peer(namespace="default", labels={"app": "shop"})
DNS = Peer(namespace="kube-system", labels={"k8s-app": "kube-dns"})
API_SERVER = Peer(address="10.0.0.1")
PUBLIC_API_SERVER = Peer(address="203.0.113.10")
METADATA = Peer(address="169.254.169.254")
WIRE_SERVER = Peer(address="168.63.129.16")
METADATA_6 = Peer(address="fe80::a9fe:a9fe")
NODE = Peer(address="192.168.1.20")
STORAGE = Peer(address="10.20.3.4")
LOCAL_DNS = Peer(address="169.254.20.10")
INTERNET = Peer(address="198.51.100.7")
INTERNET_6 = Peer(address="2001:4860::8888")


def policies(**values):
    return [found for found in objects({"networkPolicies": values}) if found["kind"] == "NetworkPolicy"]


@pytest.fixture(scope="module")
def usual():
    return policies()


YES = [
    (JOB, SERVICE, 8089),
    (JOB, TASK, 29500),
    (JOB, INTERNET, 443),
    (JOB, INTERNET_6, 443),
    (AGENT, SERVICE, 8089),
    (HUB, SERVICE, 8089),
    (PROXY, SERVICE, 8089),
    (NOTEBOOK, SERVICE, 8089),
    (SERVICE, HUB, 8081),
    (SERVICE, API_SERVER, 443),
]
NO = [
    (JOB, API_SERVER, 443),
    (JOB, METADATA, 80),
    (JOB, METADATA_6, 80),
    (JOB, WIRE_SERVER, 80),
    (JOB, NODE, 10250),
    (JOB, STORAGE, 2049),
    (JOB, HUB, 8081),
    (JOB, NOTEBOOK, 8888),
    (JOB, STRANGER, 80),
    (JOB, AGENT, 8089),
    (JOB, SERVICE, 22),
    (AGENT, API_SERVER, 443),
    (AGENT, INTERNET, 443),
    (AGENT, HUB, 8081),
    (RESERVATION, SERVICE, 8089),
    (RESERVATION, INTERNET, 443),
    (NOTEBOOK, AGENT, 8089),
    (NOTEBOOK, JOB, 29500),
    (PROMETHEUS, SERVICE, 8089),
    (STRANGER, SERVICE, 8089),
    (STRANGER, JOB, 29500),
    (OTHER_INSTALLATION, SERVICE, 8089),
    (HUB, JOB, 29500),
    (SERVICE, AGENT, 9000),
    (SERVICE, RESERVATION, 80),
]


@pytest.mark.parametrize(("source", "target", "port"), YES)
def test_what_has_to_talk_can(source, target, port, usual):
    assert connects(usual, source, target, port)


@pytest.mark.parametrize(("source", "target", "port"), NO)
def test_what_has_nothing_to_say_to_each_other_is_kept_apart(source, target, port, usual):
    assert not connects(usual, source, target, port)


@pytest.mark.parametrize("source", [JOB, AGENT])
def test_names_are_looked_up_in_the_cluster_and_at_the_node(source, usual):
    for protocol in ("TCP", "UDP"):
        assert connects(usual, source, DNS, 53, protocol)
        assert connects(usual, source, LOCAL_DNS, 53, protocol)
    assert not connects(usual, source, DNS, 443)
    assert not connects(policies(dns=[]), source, LOCAL_DNS, 53)


def test_the_administrator_opens_and_closes():
    assert not connects(policies(internet=False), JOB, INTERNET, 443)
    assert connects(policies(internet=False), JOB, SERVICE, 8089)
    assert connects(policies(allow=["10.20.0.0/16"]), JOB, STORAGE, 2049)
    assert connects(policies(), JOB, PUBLIC_API_SERVER, 443), "else the next line shows nothing"
    assert not connects(policies(apiServer=["203.0.113.10/32"]), JOB, PUBLIC_API_SERVER, 443)
    assert connects(policies(prometheus={"kubernetes.io/metadata.name": "monitoring"}), PROMETHEUS, SERVICE, 8089)


def z2jh_policy(egress):
    """What Zero to JupyterHub 4.4 lets notebooks out to by its defaults, and these rules of its values."""
    known = [(HUB, 8081), (PROXY, 8000), (AUTOHTTPS, 8080), (AUTOHTTPS, 8443)]
    private = [{"ipBlock": {"cidr": cidr}} for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    public = {"cidr": "0.0.0.0/0", "except": [peer["ipBlock"]["cidr"] for peer in private] + ["169.254.169.254/32"]}
    rules = [{"to": [{"podSelector": {"matchLabels": pod.labels}}], "ports": [{"port": port}]} for pod, port in known]
    rules += [{"to": private, "ports": [{"port": 53}]}, {"to": [{"ipBlock": public}]}, *egress]
    spec = {"podSelector": {"matchLabels": NOTEBOOK.labels}, "policyTypes": ["Egress"], "egress": rules}
    return {"metadata": {"name": "singleuser", "namespace": NAMESPACE}, "spec": spec}


def test_notebooks_reach_the_service_where_they_dial_it_with_what_the_notes_say(usual, tmp_path):
    """At its own address: the proxy would send them on to HTTPS, where some of its ports are closed to them."""
    settings = named(objects(), "ConfigMap", "gq-gq-hub")["data"]["jupyterhub_config_values_cluster.py"]
    assert 'server_service_url = "http://gq-gq-service.hub.svc:8089/services/jupyter-gq/"' in settings
    egress = to_add_to_the_hub(tmp_path / "own")["singleuser"]["networkPolicy"]["egress"]
    assert connects([*usual, z2jh_policy(egress)], NOTEBOOK, SERVICE, 8089)
    assert not connects([*usual, z2jh_policy([])], NOTEBOOK, SERVICE, 8089), "else nothing need be added"


def test_notebooks_may_be_told_to_use_the_proxy(usual, tmp_path):
    values = {"hub": {"notebookUrl": "http://proxy-public/"}}
    settings = named(objects(values), "ConfigMap", "gq-gq-hub")["data"]["jupyterhub_config_values_cluster.py"]
    assert 'server_service_url = "http://proxy-public/services/jupyter-gq/"' in settings
    assert "networkPolicy" not in to_add_to_the_hub(tmp_path, "hub.notebookUrl=http://proxy-public")["singleuser"]
    assert connects([*usual, z2jh_policy([])], NOTEBOOK, PROXY, 8000)


def test_without_policies_there_are_none():
    assert policies(enabled=False) == []

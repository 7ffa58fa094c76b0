"""The stand-in kubelet does what tests of pods count on."""

import pytest

from jupyter_gq.agent.kubelet import KubeletSocket
from tests.kubernetes.waiting import until

_CHECK = """
import os, pathlib, signal, subprocess, sys, time

def asked(*_):
    pathlib.Path(os.environ["GQ_TERMINATION_LOG"]).write_text("I was asked")
    sys.exit(7)

signal.signal(signal.SIGTERM, asked)
print(os.environ["POD_IP"], os.environ["PEER"], os.environ["NVIDIA_VISIBLE_DEVICES"])
print(open(sys.argv[1] + "/token").read().count("."))
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("ready", flush=True)
while True:
    time.sleep(0.05)  # `signal.pause` would miss a signal that comes right before it
"""


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet("gpu-a", gpus=2)


def _pod(name, command=(), *, image="image", gpus=0, **spec):
    devices = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": image, "command": list(command), "resources": devices}
    spec.setdefault("containers", [container])
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "affinity": {"nodeAffinity": affinity}, **spec},
    }


class _Pods:
    def __init__(self, core, namespace):
        self.core, self.namespace = core, namespace

    def create(self, name, *args, **more):
        self.core.create_namespaced_pod(self.namespace, _pod(name, *args, **more))

    def get(self, name):
        return self.core.read_namespaced_pod(name, self.namespace)

    def reach(self, name, phase):
        def reached():
            pod = self.get(name)
            return pod if pod.status.phase == phase else None

        return until(reached, lambda: f"{name} {phase}: {self.get(name).status}")

    def delete(self, name):
        self.core.delete_namespaced_pod(name, self.namespace)

    def gone(self, name):
        until(lambda: name not in [p.metadata.name for p in self.core.list_namespaced_pod(self.namespace).items], name)


@pytest.fixture(scope="module")
def pods(control_plane, namespace_set):
    return _Pods(control_plane.core, namespace_set.nodes)


def test_a_pod_is_a_process_that_is_told_its_place_and_asked_to_end(node, pods, namespace_set):
    container = {
        "name": "main",
        "image": "image",
        "command": ["python", "-c", _CHECK, "/var/run/secrets/gq"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PEER", "value": "first.gang:29500"},
            {"name": "GQ_TERMINATION_LOG", "value": "/dev/termination-log"},
        ],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/gq"}],
    }
    token = {"serviceAccountToken": {"path": "token", "audience": "jupyter-gq", "expirationSeconds": 600}}
    volumes = [{"name": "token", "projected": {"sources": [token]}}]
    pods.create("second", containers=[container], volumes=volumes, subdomain="gang", hostname="second")
    pod = pods.reach("second", "Running")
    until(lambda: "ready" in node.log(pods.namespace, "second"), "its output")
    address, peer, device, dots = node.log(pods.namespace, "second").split()[:4]
    assert address == pod.status.pod_ip
    assert peer.startswith("127.")
    assert peer.endswith(":29500")
    assert (device, dots) == ("GPU-sim-gpu-a-1", "2")
    held = node.container(pods.namespace, "second")
    told = [a for a in KubeletSocket(node.pod_resources.socket).read().allocations if a.namespace == pods.namespace]
    assert [(a.pod, a.container, a.device_ids) for a in told] == [("second", "main", ["GPU-sim-gpu-a-1"])]
    pods.delete("second")
    pods.gone("second")
    assert (held.code, held.message("File")) == (7, "I was asked")
    assert not held.processes()


def test_a_pod_that_was_bound_past_the_scheduler_is_refused(node, pods):
    pods.create("whole", gpus=2)
    pods.reach("whole", "Running")
    pods.create("one-more", gpus=1, nodeName="gpu-a")
    assert pods.reach("one-more", "Failed").status.reason == "UnexpectedAdmissionError"
    for name in ("one-more", "whole"):
        pods.delete(name)
        pods.gone(name)


def test_ends_are_reported_with_code_and_message(node, pods):
    pods.create("fails", ["sh", "-c", "echo it broke; exit 3"])
    pods.create("no-package", ["python", "-m", "jupyter_gq.runner"], image="an/image-no-runner")
    pods.create("no-image", image="missing/image")
    ended = pods.reach("fails", "Failed").status.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.reason) == (3, "Error")
    pods.reach("no-package", "Failed")
    assert "No module named 'jupyter_gq'" in node.log(pods.namespace, "no-package")
    waiting = until(lambda: (pods.get("no-image").status.container_statuses or [None])[0], "its status").state.waiting
    assert waiting.reason == "ImagePullBackOff"
    for name in ("fails", "no-package", "no-image"):
        pods.delete(name)
        pods.gone(name)


def test_a_pod_outlives_its_kubelet_and_the_api_server(node, pods, control_plane):
    pods.create("steady", gpus=2)
    pods.reach("steady", "Running")
    process = node.container(pods.namespace, "steady").process.pid
    node.restart()
    control_plane.stop_api()
    control_plane.start_api()
    # The scheduler sees all again only after up to a minute, and the next tests need it.
    control_plane.settle()
    pods.create("later", ["sh", "-c", "exit 0"], nodeName="gpu-a")
    pods.reach("later", "Succeeded")
    assert pods.reach("steady", "Running").status.container_statuses[0].restart_count == 0
    assert node.container(pods.namespace, "steady").process.pid == process
    pods.delete("steady")
    pods.gone("steady")


_MESH = {"name": "mesh", "image": "mesh", "command": ["sleep", "infinity"]}
_WORK = {"name": "runner", "image": "image", "command": ["sh", "-c", "exit 0"]}


def _states(pod, of="container_statuses"):
    return {each.name: each.state for each in getattr(pod.status, of)}


@pytest.mark.parametrize("index", [0, 1])
def test_a_pod_runs_as_long_as_a_sidecar_does(node, pods, index):
    containers = [_WORK]
    containers.insert(index, _MESH)
    name = f"beside-{index}"
    pods.create(name, containers=containers)
    pod = until(lambda: _ended(pods.get(name), "runner"), "the end of the work")
    states = _states(pod)
    assert (pod.status.phase, states["runner"].terminated.exit_code) == ("Running", 0)
    assert states["mesh"].running
    pods.delete(name)
    pods.gone(name)
    assert not node.container(pods.namespace, name).processes()


def _ended(pod, container):
    statuses = {each.name: each for each in pod.status.container_statuses or ()}
    return pod if container in statuses and statuses[container].state.terminated else None


def test_a_native_sidecar_ends_after_the_work(node, pods):
    pods.create("native", containers=[_WORK], initContainers=[{**_MESH, "restartPolicy": "Always"}])
    pod = pods.reach("native", "Succeeded")
    assert _states(pod, "init_container_statuses")["mesh"].terminated.exit_code == 143
    pods.delete("native")
    pods.gone("native")


def test_a_sidecar_that_fails_or_cannot_start_is_reported_as_such(node, pods):
    fails = {"name": "mesh", "image": "mesh", "command": ["sh", "-c", "exit 4"]}
    pods.create("failing-mesh", containers=[fails, _WORK])
    states = _states(pods.reach("failing-mesh", "Failed"))
    assert (states["mesh"].terminated.exit_code, states["runner"].terminated.exit_code) == (4, 0)
    pods.create("no-mesh", containers=[{**_MESH, "image": "missing/mesh"}, _WORK])
    pod = until(lambda: _ended(pods.get("no-mesh"), "runner"), "the end of the work")
    assert (pod.status.phase, _states(pod)["mesh"].waiting.reason) == ("Pending", "ImagePullBackOff")
    for name in ("failing-mesh", "no-mesh"):
        pods.delete(name)
        pods.gone(name)

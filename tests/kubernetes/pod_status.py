"""What a kubelet tells the API server about a pod and about its node."""

import os

from tests.kubernetes.device_plugin import Devices
from tests.kubernetes.pod_runtime import Container, now

_NODE = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def running(container: Container):
    """The state of a container whose process runs."""
    return {"running": {"startedAt": container.started}}


def terminated(container: Container, policy: str):
    """The state of one whose process has ended, with what it left behind."""
    return {
        "terminated": {
            "exitCode": container.code,
            "reason": "Error" if container.code else "Completed",
            "startedAt": container.started,
            "finishedAt": container.finished or now(),
            "message": container.message(policy),
        }
    }


def state_of(container: Container, policy: str):
    """The state of a container as its process shows it."""
    if container.process is None:
        problem = f'Back-off pulling image "{container.image}": ErrImagePull: not found'
        return {"waiting": {"reason": "ImagePullBackOff", "message": problem}}
    return running(container) if container.code is None else terminated(container, policy)


def pod_status(pod, container: Container, phase: str, state):
    """The whole status, for one patch: readers index its keys as soon as there is a phase.

    `container` is the main one, and `state` its state. The others have each a state of its own.
    """
    states = {each.name: state_of(each, "File") for each in container.beside} | {container.name: state}
    every = {each.name: each for each in container.everything}

    def shown(spec):
        each, known = every[spec["name"]], states[spec["name"]]
        return _container(spec, known, "running" in known and each.ready, each.restarts)

    containers = [shown(spec) for spec in pod["spec"]["containers"]]
    ready = all(each["ready"] for each in containers)
    conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
    status = {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "podIP": container.address,
        "podIPs": [{"ip": container.address}],
        "startTime": container.started or now(),
        "conditions": [{"type": "Initialized", "status": "True"}, *conditions],
        "containerStatuses": containers,
    }
    if inits := pod["spec"].get("initContainers"):
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now()}}
        status["initContainerStatuses"] = [
            shown(spec) if spec["name"] in states else _container(spec, done, True, 0) for spec in inits
        ]
    return status


def _container(spec, state, ready: bool, restarts: int):
    about = {"name": spec["name"], "image": spec["image"], "imageID": "", "state": state}
    return about | {"ready": ready, "started": "running" in state, "restartCount": restarts}


def node_object(name: str, labels, taints, devices: Devices):
    """The node as its kubelet registers it."""
    known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "metadata": {"name": name, "labels": known | labels},
        "spec": {"taints": taints},
        "status": node_status(name, devices),
    }


def node_status(name: str, devices: Devices):
    """Ready, with so many devices as the device plugin lists."""
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    conditions += [
        {"type": f"{kind}Pressure", "status": "False", "reason": f"KubeletHasNo{kind}Pressure"}
        for kind in ("Memory", "Disk", "PID")
    ]
    moment = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
    count = {devices.resource: str(len(devices.uuids))} if devices.uuids else {}
    unknown = dict.fromkeys(["bootID", "machineID", "systemUUID", "osImage", "kubeProxyVersion"], "")
    info = {"architecture": "amd64", "operatingSystem": "linux", "kernelVersion": os.uname().release}
    info |= {"containerRuntimeVersion": "processes://1", "kubeletVersion": "v1.36.3", **unknown}
    return {
        "capacity": _NODE | count,
        "allocatable": _NODE | count,
        "conditions": [condition | moment for condition in conditions],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "nodeInfo": info,
    }

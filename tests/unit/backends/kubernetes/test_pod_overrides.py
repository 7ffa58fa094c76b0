"""What jobs cannot have is refused when the settings are read, in a sentence, and not again with each job."""

import re

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.app import main
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.client.models import JobSubmission, Manifest

from .test_manifests import OPTIONS, a_pod, replace

GPU = {"limits": {"nvidia.com/gpu": "1"}}


def runner(**fields):
    return {"spec": {"containers": [{"name": "runner", **fields}]}}


def beside(part, **fields):
    return {"spec": {part: [{"name": "side", "image": "x", **fields}]}}


MISSHAPEN = [
    ({"spec": "x"}, "spec is 'x'; expected a mapping"),
    ({"spec": None}, "spec is None; expected a mapping"),
    ({"metadata": ["x"]}, r"metadata is \['x'\]; expected a mapping"),
    (
        {"spec": {"containers": {"runner": {"image": "y"}}}},
        "spec.containers is .*; expected a list, as in a pod of Kub",
    ),
    ({"spec": {"containers": None}}, "spec.containers is None; expected a list"),
    ({"spec": {"containers": [{"name": "a"}, "b"]}}, r"spec.containers\[1\] is 'b'; expected a mapping"),
    ({"spec": {"containers": [{"image": "side"}]}}, r"spec.containers\[0\] is .*, without a name that is a text"),
    ({"spec": {"initContainers": "x"}}, "spec.initContainers is 'x'; expected a list"),
    ({"spec": {"initContainers": [{"name": ""}]}}, r"spec.initContainers\[0\] is .*, without a name"),
    (runner(env=[{"value": "1"}]), r"spec.containers\[0\].env\[0\] is .*, without a name"),
    (runner(env={"A": "1"}), r"spec.containers\[0\].env is .*; expected a list"),
    (runner(resources={"limits": None}), r"spec.containers\[0\].resources.limits is None; expected a mapping"),
    (runner(volumeMounts=["/data"]), r"spec.containers\[0\].volumeMounts\[0\] is '/data'; expected a mapping"),
    ({"spec": {"volumes": [{"emptyDir": {}}]}}, r"spec.volumes\[0\] is .*, without a name"),
    ({"spec": {"tolerations": {"key": "a"}}}, "spec.tolerations is .*; expected a list"),
    ({"spec": {"affinity": "x"}}, "spec.affinity is 'x'; expected a mapping"),
    ({"spec": {"affinity": {"nodeAffinity": []}}}, r"spec.affinity.nodeAffinity is \[\]; expected a mapping"),
    ({"spec": {"nodeSelector": {"fast": True}}}, "spec.nodeSelector is .*; expected a mapping of texts.* into quotes"),
    ({"metadata": {"labels": None}}, "metadata.labels is None; expected a mapping of texts"),
    ({"metadata": {"annotations": {"cost": 12}}}, "metadata.annotations is .*; expected a mapping of texts"),
    ({"nodeSelector": {"disk": "fast"}}, "'nodeSelector' is no part of a pod that can be set; .* Put it under spec."),
    ({"spec": {"priority": {1, 2}}}, r"\{1, 2\} cannot stand there"),
    (runner(resources={"limits": {1: "2"}}), "1 cannot stand there. Use lists, dicts with texts as keys"),
]
OURS = [
    ({"metadata": {"name": "mine"}}, "metadata.name cannot be set"),
    ({"metadata": {"namespace": "default"}}, "metadata.namespace cannot be set"),
    ({"metadata": {"finalizers": ["a/b"]}}, "metadata.finalizers cannot be set"),
    ({"metadata": {"labels": {"jupyter-gq.org/workload": "x"}}}, "metadata.labels sets jupyter-gq.org/workload"),
    (
        {"metadata": {"labels": {"app.kubernetes.io/component": "x"}}},
        "metadata.labels sets app.kubernetes.io/component",
    ),
    ({"metadata": {"annotations": {"jupyter-gq.org/slots": "n2/7"}}}, "metadata.annotations sets jupyter-gq.org/slots"),
    ({"spec": {"nodeName": "n2"}}, "spec sets nodeName: it would keep pods from the node that the GPU service chose"),
    ({"spec": {"restartPolicy": "Always"}}, "spec sets restartPolicy"),
    ({"spec": {"initContainers": [{"name": "runner"}]}}, "spec.initContainers has a container runner"),
]
DEVICES = [
    (runner(resources=GPU), "the container runner asks for nvidia.com/gpu: 1, which is not of a share"),
    (
        runner(resources={"requests": {"nvidia.com/mig-1g.5gb": 1}}),
        "the container runner asks for nvidia.com/mig-1g.5gb",
    ),
    (beside("containers", resources=GPU), "the container side asks for nvidia.com/gpu"),
    (beside("initContainers", resources={"limits": {"amd.com/gpu": 1}}), "the container side asks for amd.com/gpu"),
    ({"spec": {"resourceClaims": [{"name": "g"}]}}, "spec sets resourceClaims: the GPU service does not count devices"),
    (
        runner(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        "the container runner names devices in NVIDIA_V",
    ),
    (
        beside("containers", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]),
        "the container side names devices",
    ),
    (
        {"metadata": {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}},
        "the annotation cdi.k8s.io/x gives devices",
    ),
    ({"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, "the annotation gpu-fraction gives devices"),
    (
        runner(volumeMounts=[{"name": "v", "mountPath": "/var/run//nvidia-container-devices/all"}]),
        "the container runner names devices by a mount",
    ),
    (runner(securityContext={"privileged": True}), "the job is privileged"),
]


@pytest.mark.parametrize(("overrides", "words"), [*MISSHAPEN, *OURS, *DEVICES])
def test_what_a_pod_of_a_job_cannot_have_is_refused(overrides, words):
    with pytest.raises(
        TraitError, match=rf"^c.KubernetesBackend.pod_overrides \(training.podOverrides .*\): {words}"
    ) as told:
        KubernetesBackend(pod_overrides=overrides)
    assert str(told.value).endswith(".")


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"metadata": {"labels": {"azure.workload.identity/use": "true"}, "annotations": {"note": "x"}}},
        {"spec": {"nodeSelector": {"disk": "fast"}, "nodeName": "", "restartPolicy": "Never", "hostNetwork": False}},
        {"spec": {"tolerations": ({"operator": "Exists"},), "volumes": [{"name": "gq-shm", "emptyDir": {}}]}},
        {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}},
        runner(resources={"limits": {"memory": "8Gi", "rdma/hca": 1}}, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        runner(env=[{"name": "HF_HOME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        beside("containers", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]),
        beside("initContainers", restartPolicy="Always", securityContext={"privileged": True}),
        beside("containers", securityContext={"privileged": True}),
    ],
)
def test_all_else_is_taken_and_makes_a_pod(overrides):
    taken = KubernetesBackend(hub_namespace="hub", pod_overrides=overrides).options().pod_overrides
    assert taken == overrides
    assert a_pod(replace(OPTIONS, pod_overrides=taken))["metadata"]["name"] == "gq-job-1-3-0"


def test_the_resource_of_a_pool_is_counted_whatever_its_name():
    config = Config()
    config.KubernetesBackend.pod_overrides = beside("containers", resources={"limits": {"example.org/gpu": 1}})
    assert KubernetesBackend(config=config).pod_overrides
    config.Pools.pools = {"odd": "x", "lab": {"nodes": {}, "resource": "example.org/gpu"}, "plain": {"nodes": {}}}
    with pytest.raises(TraitError, match=r"the container side asks for example\.org/gpu: 1"):
        KubernetesBackend(config=config)


def test_an_administrator_hears_of_it_from_check_config(tmp_path, capsys):
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(
        "c.SchedulerService.backend = 'kubernetes'\n"
        f"c.SchedulerService.state_dir = {str(tmp_path)!r}\n"
        "c.KubernetesBackend.pod_overrides = {'spec': {'containers': {'runner': {'image': 'y'}}}}\n"
    )
    assert main(["check-config", str(config)]) == 1
    told = capsys.readouterr().out
    assert ", line 3: c.KubernetesBackend.pod_overrides (training.podOverrides of the chart): spec.cont" in told


def test_a_request_for_a_job_has_no_place_for_containers():
    """The page `job-pod.md` says so: only administrators lay anything on the pods of jobs."""
    fields = {*JobSubmission.model_fields, *Manifest.model_fields}
    assert not [name for name in fields if re.search("container|override|volume|security|privileged|image", name)]

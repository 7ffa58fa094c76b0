"""The pods that the backend makes, told by the chart's settings, are those that the chart's other objects speak of."""

import kubernetes_validate
import pytest

from jupyter_gq.backends.kubernetes.objects.holding_pods import placeholder_pod, reservation_pod
from jupyter_gq.backends.kubernetes.objects.manifests import as_job, gang_service, training_pod
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.backends.kubernetes.providers.allocation import Allocation, additions_without_gpu
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.controller.settings.config_file import ExecutedFiles, load_config
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool, Provider, ScaleUp, Visibility
from tests.builders import a_job
from tests.chart.render import EXAMPLES, NEWEST, OLDEST, named, objects
from tests.chart.test_settings import folder

A_GANG = a_job("digits", "vision", 2, id="job-1", run=3, tasks=2)
GROWING = next(path for path in EXAMPLES if path.name == "growing-values.yaml")
JOBS = next(path for path in EXAMPLES if path.name == "jobs-values.yaml")


@pytest.fixture
def chart():
    return objects(None, JOBS)


@pytest.fixture
def options(chart, tmp_path, monkeypatch):
    config = load_config(folder(chart, tmp_path, monkeypatch), ExecutedFiles())
    return KubernetesBackend(config=config).options()


@pytest.fixture
def job(options):
    return training_pod(A_GANG, 1, PodAdditions(node="n"), {}, "image", options)


@pytest.fixture
def reservation(options):
    return reservation_pod("node/0", PodPool(name="train", selector={}), options)


def selects(found, pod):
    spec = found["spec"]
    selector = spec["podSelector"] if "podSelector" in spec else spec["selector"]
    same_place = found["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same_place and selector["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_policies_and_budgets_find_the_pods_of_the_backend(chart, job, reservation):
    policies = [found for found in chart if found["kind"] == "NetworkPolicy"]
    assert [found["metadata"]["name"] for found in policies if selects(found, job)] == ["gq-gq-training"]
    assert [found["metadata"]["name"] for found in policies if selects(found, reservation)] == ["gq-gq-reservation"]
    budget = named(chart, "PodDisruptionBudget", "gq-gq-reservation")
    assert selects(budget, reservation)
    assert not selects(budget, job)


def test_what_the_pods_name_is_made_by_the_chart(chart, job, reservation):
    made = {(found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]) for found in chart}
    for pod in (job, reservation):
        namespace, spec = pod["metadata"]["namespace"], pod["spec"]
        assert ("Namespace", "", namespace) in made
        assert ("ServiceAccount", namespace, spec["serviceAccountName"]) in made
        assert ("PriorityClass", "", spec["priorityClassName"]) in made
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in job["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert ("PersistentVolumeClaim", job["metadata"]["namespace"], claims.pop("gq-checkpoint")) in made
    assert set(claims.values()) == {"homes", "imagenet", "shared"}, "the volumes of the values"
    assert job["spec"]["nodeSelector"] == {"example.org/disk": "fast"}, "podOverrides of the values"


def test_agents_come_before_whatever_else_runs_on_a_node(chart):
    agent = named(chart, "DaemonSet")["spec"]["template"]["spec"]
    order = [
        named(chart, "PriorityClass", name)
        for name in (agent["priorityClassName"], "gq-gq-reservation", "gq-gq-training")
    ]
    assert [each["value"] for each in order] == sorted((each["value"] for each in order), reverse=True)
    assert [each.get("preemptionPolicy") for each in order] == [None, "Never", "Never"]


def test_a_job_dials_the_service_of_the_chart(chart, job, options):
    (url,) = [each["value"] for each in job["spec"]["containers"][0]["env"] if each["name"] == "GQ_SERVICE_URL"]
    service = named(chart, "Service")
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert url == f"http://{host}:{service['spec']['ports'][0]['port']}/services/jupyter-gq/"
    assert gang_service(A_GANG, options)["metadata"]["namespace"] == job["metadata"]["namespace"]


def test_a_placeholder_is_the_pod_of_the_pool_that_the_values_describe(tmp_path, monkeypatch):
    found = objects(None, GROWING)
    config = load_config(folder(found, tmp_path, monkeypatch), ExecutedFiles())
    (pool,) = [each for each in build_settings(config, ()).pod_pools if each.scale_up is not None]
    assert pool.scale_up == ScaleUp(gpus=8, nodes=4, cpu_milli=90_000, memory=1000 * 1024)
    pod = placeholder_pod(pool, 0, KubernetesBackend(config=config).options())
    assert pod["spec"]["priorityClassName"] == named(found, "PriorityClass", "gq-gq-placeholder")["metadata"]["name"]
    assert pod["spec"]["nodeSelector"]["jupyter-gq.org/pool"] == "train"
    assert [each["metadata"]["name"] for each in found if each["kind"] == "NetworkPolicy" and selects(each, pod)] == [
        "gq-gq-placeholder"
    ]
    assert not selects(named(found, "PodDisruptionBudget"), pod)
    for version in (OLDEST, NEWEST):
        kubernetes_validate.validate(pod, version, strict=True)


BEARS = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
POOLS = {
    **{f"reservation-{mode}": PodPool(name="p", visibility=mode, tolerations=BEARS) for mode in Visibility},
    **{provider.value: PodPool(name="p", provider=provider) for provider in (Provider.HAMI, Provider.KAI)},
}


def added_by(pool, gpus):
    """What a pod carries that has a share of a device there, two whole ones, or none."""
    devices = tuple(Device(id=f"GPU-{i}", index=i, model="A100", memory=40_000, pool="p") for i in range(2))
    if gpus == "none":
        return additions_without_gpu(Allocation(node="n", pool=pool))
    count, milli = (1, 250) if gpus == "share" else (2, 1000)
    named = gpus == "share" or pool.provider is Provider.HAMI
    given = Allocation(
        node="n",
        pool=pool,
        slots=tuple(f"n/{i}" for i in range(count)),
        milli_per_device=milli,
        devices=devices[:count] if named else (),
        model=devices[0],
    )
    return PROVIDERS[pool.provider].additions(given)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_all_that_the_backend_makes_is_valid_in_every_version_that_we_support(version, options):
    made = [gang_service(A_GANG, options)]
    for pool in POOLS.values():
        made.append(reservation_pod("node/0", pool, options))
        for gpus in ("share", "whole", "none"):
            pod = training_pod(A_GANG, 1, added_by(pool, gpus), {"GQ_STOP_GRACE": "30"}, "image", options)
            made += [pod, as_job(pod)]
    assert len(made) == 1 + 7 * len(POOLS)
    for found in made:
        kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize("mode", Visibility)
def test_each_way_to_see_a_device_is_in_the_pod_that_is_made(mode, options):
    """So that what is validated is what differs."""
    added = added_by(POOLS[f"reservation-{mode}"], "share")
    pod = training_pod(A_GANG, 1, added, {}, "image", options)
    (container,) = pod["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    hosts = [each["hostPath"]["path"] for each in pod["spec"]["volumes"] if "hostPath" in each]
    shown = {
        Visibility.ENV: (("GPU-0", []), False),
        Visibility.ENV_CDI: (("k8s.device-plugin.nvidia.com/gpu=GPU-0", []), False),
        Visibility.VOLUME_MOUNT: (("void", ["/dev/null"]), False),
        Visibility.CDI_ANNOTATION: (("void", []), True),
    }
    annotated = "cdi.k8s.io/gq" in pod["metadata"]["annotations"]
    assert ((environment["NVIDIA_VISIBLE_DEVICES"], hosts), annotated) == shown[mode]
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert pod["spec"]["tolerations"] == list(BEARS)

"""How a pod gets its devices: by count, by name, or by what another scheduler is told."""

import pytest

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.manifests import as_job, training_pod
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.backends.kubernetes.providers.allocation import Allocation, additions_without_gpu
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import Hold, PodPool, Provider, Visibility, find_pool
from tests.builders import a_job

from .paper import OPTIONS

A, B = (Device(id=f"GPU-{n}", index=i, model="A100", memory=40_000, pool="") for i, n in enumerate("ab"))


def allocation(milli=250, devices=(A,), slots=("n1/0",), **pool):
    pool = PodPool(name="p", **pool)
    return Allocation(node="n1", pool=pool, slots=slots, milli_per_device=milli, devices=devices, model=A)


def additions(given):
    return PROVIDERS[given.pool.provider].additions(given)


def test_whole_devices_are_asked_for_by_count_and_never_named():
    added = additions(allocation(1000, (), ("n1/0", "n1/1")))
    assert added.resources == {"nvidia.com/gpu": "2"}
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & set(added.environment)
    assert added.environment["JUPYTER_GQ_GPUS"] == "2"
    assert (added.node, added.annotations) == ("n1", {names.SLOTS: "n1/0,n1/1"})
    assert added.runtime_class is None


def test_without_a_gpu_nothing_is_visible_whatever_the_image_says():
    added = additions_without_gpu(Allocation(node="n1", pool=None))
    assert added.environment["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert added.environment["CUDA_VISIBLE_DEVICES"] == ""
    assert (added.resources, added.annotations) == ({}, {})


@pytest.mark.parametrize(
    ("mode", "variable"),
    [
        (Visibility.ENV, "GPU-a,GPU-b"),
        (Visibility.ENV_CDI, "k8s.device-plugin.nvidia.com/gpu=GPU-a,k8s.device-plugin.nvidia.com/gpu=GPU-b"),
        (Visibility.VOLUME_MOUNT, "void"),
        (Visibility.CDI_ANNOTATION, "void"),
    ],
)
def test_a_share_sees_its_devices_by_the_way_of_its_pool(mode, variable):
    added = additions(allocation(500, (A, B), ("n1/0", "n1/1"), visibility=mode))
    assert added.environment["NVIDIA_VISIBLE_DEVICES"] == variable
    assert added.environment["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert added.environment["JUPYTER_GQ_MEMORY_MIB"] == "20000"
    assert added.runtime_class == "nvidia"
    assert added.resources == {}, "the reservation has them"
    assert added.annotations[names.DEVICES] == "GPU-a,GPU-b"
    mounts = [each["mountPath"] for each in added.volume_mounts]
    by_mount = [f"/var/run/nvidia-container-devices/{each.id}" for each in (A, B)]
    assert mounts == (by_mount if mode is Visibility.VOLUME_MOUNT else [])
    assert [each["hostPath"]["path"] for each in added.volumes] == ["/dev/null"] * bool(mounts)
    assert ("cdi.k8s.io/gq" in added.annotations) == (mode is Visibility.CDI_ANNOTATION)


def test_reservations_are_for_shares_and_for_pools_that_keep_their_devices():
    demand, always = PodPool(name="d"), PodPool(name="a", hold=Hold.ALWAYS)
    needs = PROVIDERS["reservation"].needs_reservation
    assert [needs(demand, whole=False), needs(demand, whole=True)] == [True, False]
    assert [needs(always, whole=False), needs(always, whole=True)] == [True, True]


def test_hami_is_told_amounts_and_devices():
    added = additions(allocation(250, provider=Provider.HAMI))
    assert added.resources == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10000", "nvidia.com/gpucores": "25"}
    assert added.annotations["nvidia.com/use-gpuuuid"] == "GPU-a"
    assert added.scheduler_name == "hami-scheduler"
    assert "CUDA_VISIBLE_DEVICES" not in added.environment
    whole = additions(allocation(1000, (A, B), ("n1/0", "n1/1"), provider=Provider.HAMI))
    assert whole.resources == {"nvidia.com/gpu": "2"}


def test_kai_is_told_a_fraction_and_its_queue():
    added = additions(allocation(250, (), provider=Provider.KAI))
    assert added.annotations["gpu-fraction"] == "0.25"
    assert added.labels["kai.scheduler/queue"] == "jupyter-gq"
    assert (added.scheduler_name, added.resources) == ("kai-scheduler", {})
    two = additions(allocation(500, (), ("n1/0", "n1/1"), provider=Provider.KAI))
    assert two.annotations["gpu-fraction-num-devices"] == "2"


@pytest.mark.parametrize("milli", [250, 1000])
def test_kai_evicts_nothing_of_ours_though_the_priority_of_jobs_is_low(milli):
    given = allocation(milli, (), provider=Provider.KAI)
    mark = {"kai.scheduler/preemptibility": "non-preemptible"}
    assert additions(given).labels.items() >= mark.items()
    pod = training_pod(a_job("j", "vision", 1, id="job-j", run=1), 0, additions(given), {}, "i", OPTIONS)
    assert pod["metadata"]["labels"].items() >= mark.items()
    assert as_job(pod)["metadata"]["labels"].items() >= mark.items(), "KAI looks at what owns the pod"


def test_whatever_is_pinned_to_a_node_of_a_pool_bears_its_taints():
    """With a GPU or without: else it would wait there for ever."""
    tolerated = ({"key": "gpu", "operator": "Exists"},)
    assert additions(allocation(tolerations=tolerated)).tolerations == [dict(tolerated[0])]
    assert additions_without_gpu(Allocation(node="n", pool=PodPool(name="p", tolerations=tolerated))).tolerations == [
        dict(tolerated[0])
    ]
    assert additions_without_gpu(Allocation(node="n", pool=None)).tolerations == []


def test_a_node_is_of_the_first_pool_that_takes_it():
    pools = [PodPool(name="a", selector={"x": "1"}), PodPool(name="rest")]
    assert find_pool(pools, {"x": "1"}).name == "a"
    assert find_pool(pools, {"x": "2"}).name == "rest"
    assert find_pool(pools[:1], {}) is None

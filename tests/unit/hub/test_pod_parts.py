"""What a share adds to a pod, as data."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.hub.kubernetes.pod_parts import PodParts, add_share, list_withheld, read_parts

_names = st.sampled_from(["cpu", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "example.com/disk"])
_amounts = st.dictionaries(_names, st.sampled_from(["1", "2"]))


@given(_amounts, _amounts, _amounts)
def test_devices_come_from_the_share_alone(requests, limits, ours):
    """Safety: whatever the pod asked for, it has exactly the devices of the additions; all else is as it was."""
    given_by_us = ["nvidia.com/*", "amd.com/gpu"]
    before = PodParts(requests=requests, limits=limits)
    after = add_share(before, PodAdditions(resources=ours), share_only=given_by_us)
    for was, now in ((requests, after.requests), (limits, after.limits)):
        assert {name: now[name] for name in ours} == ours
        others = {name: amount for name, amount in was.items() if name not in ours}
        left = {name: amount for name, amount in now.items() if name not in ours}
        assert left == {name: amount for name, amount in others.items() if name in ("cpu", "example.com/disk")}
    taken = (requests.keys() | limits.keys()) - ours.keys() - {"cpu", "example.com/disk"}
    assert list_withheld(before, PodAdditions(resources=ours), given_by_us) == sorted(taken)


def test_no_variable_of_somebody_else_makes_a_device_visible():
    before = PodParts(
        environment=[
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "JUPYTER_GQ_GPUS", "value": "8"},
        ]
    )
    whole = add_share(before, PodAdditions(environment={"JUPYTER_GQ_GPUS": "1"}))
    assert whole.environment == [before.environment[2], {"name": "JUPYTER_GQ_GPUS", "value": "1"}]
    share = add_share(before, PodAdditions(environment={"NVIDIA_VISIBLE_DEVICES": "GPU-$(X)"}))
    assert share.environment[-1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-$$(X)"}
    assert len(share.environment) == 3


def test_names_of_ours_win_and_nothing_else_is_lost():
    before = PodParts(
        labels={"a": "1", "jupyter-gq.org/workload": "old"},
        annotations={"b": "2"},
        scheduler_name="release-user-scheduler",
        runtime_class="theirs",
        tolerations=[{"key": "user"}, {"key": "gpu"}],
        volumes=[{"name": "home"}, {"name": "gq-device"}],
        volume_mounts=[{"mountPath": "/home", "name": "home"}, {"mountPath": "/dev/x", "name": "home"}],
    )
    additions = PodAdditions(
        labels={"jupyter-gq.org/workload": "nb-1"},
        annotations={"cdi.k8s.io/gq": "x"},
        scheduler_name="hami-scheduler",
        tolerations=[{"key": "gpu"}, {"key": "more"}],
        volumes=[{"name": "gq-device", "hostPath": {"path": "/dev/null"}}],
        volume_mounts=[{"mountPath": "/dev/x", "name": "gq-device"}],
    )
    after = add_share(before, additions)
    assert after.labels == {"a": "1", "jupyter-gq.org/workload": "nb-1"}
    assert after.annotations == {"b": "2", "cdi.k8s.io/gq": "x"}
    assert (after.scheduler_name, after.runtime_class) == ("hami-scheduler", "theirs")
    assert after.tolerations == [{"key": "user"}, {"key": "gpu"}, {"key": "more"}]
    assert after.volumes == [{"name": "home"}, additions.volumes[0]]
    assert after.volume_mounts == [before.volume_mounts[0], additions.volume_mounts[0]]


def test_nothing_to_add_changes_nothing():
    pod = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "sidecar"}, {"name": "notebook"}]}}
    parts = read_parts(pod, "notebook")
    assert add_share(parts, PodAdditions(), share_only=["nvidia.com/*"]) == parts

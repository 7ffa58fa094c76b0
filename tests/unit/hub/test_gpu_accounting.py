"""Settings and pods with which the service would not see who uses a GPU are refused with a sentence."""

import copy

import pytest

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.pinning import pinned_affinity
from jupyter_gq.hub.kubernetes.gpu_accounting import explain_namespace, explain_uncounted_gpu, find_unsupported_settings

ONLY = ("nvidia.com/*",)
SHARE = PodAdditions(
    node="gpu-1",
    environment={"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
    labels={"jupyter-gq.org/workload": "nb-1"},
    annotations={"jupyter-gq.org/slots": "gpu-1/0"},
)
WHOLE = SHARE.model_copy(update={"environment": {}, "resources": {"nvidia.com/gpu": "1"}})
NONE = PodAdditions(environment={"NVIDIA_VISIBLE_DEVICES": "void"})
CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"enable_user_namespaces": True}, "c.KubeSpawner.enable_user_namespaces is True"),
        ({"namespace": "users"}, "c.KubeSpawner.namespace is users, but the GPU service sees the servers of hub only"),
        ({"extra_pod_config": {"nodeName": "n7"}}, "extra_pod_config sets nodeName"),
        ({"extra_pod_config": {"node_name": "n7"}}, "extra_pod_config sets node_name"),
        ({"extra_pod_config": {"resourceClaims": CLAIM}}, "extra_pod_config sets resourceClaims"),
        ({"privileged": True}, "c.KubeSpawner.privileged makes servers privileged"),
        ({"container_security_context": {"privileged": True}}, "c.KubeSpawner.container_security_context"),
        ({"extra_container_config": {"securityContext": {"privileged": True}}}, "c.KubeSpawner.extra_container_config"),
    ],
)
def test_a_setting_that_would_hide_a_used_gpu_is_named(settings, words):
    (sentence,) = find_unsupported_settings(settings, "hub")
    assert words in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    "place",
    [
        lambda override: [{"display_name": "A", "kubespawner_override": override}],
        lambda override: {"a": {"display_name": "A", "kubespawner_override": override}},
        lambda override: [
            {"profile_options": {"where": {"choices": {"far": {"kubespawner_override": override}}}}},
        ],
        lambda override: [{"profile_options": {"where": {"unlisted_choice": {"kubespawner_override": override}}}}],
    ],
)
@pytest.mark.parametrize(
    "override",
    [
        {"namespace": "users"},
        {"enable_user_namespaces": True},
        {"extra_pod_config": {"resourceClaims": CLAIM}},
        {"privileged": True},
        {"container_security_context": {"privileged": True}},
        {"extra_container_config": {"securityContext": {"privileged": True}}},
    ],
)
def test_profiles_are_looked_through(place, override):
    (sentence,) = find_unsupported_settings({"profile_list": place(override)}, "hub")
    assert sentence.startswith("kubespawner_override of a profile: ")


def test_settings_that_hide_nothing_are_let_through():
    settings = {
        "enable_user_namespaces": False,
        "namespace": "hub",
        "pod_name_template": "lab-{user_server}",
        "user_namespace_template": "{hubnamespace}-{username}",
        "extra_pod_config": {"runtimeClassName": "kata", "nodeName": ""},
        "extra_containers": [{"name": "mesh", "securityContext": {"privileged": True}}],
        "init_containers": [{"name": "block-cloud-metadata", "securityContext": {"privileged": True}}],
        "container_security_context": {"privileged": False},
        "delete_stopped_pods": False,
        "profile_list": lambda spawner: [],
    }
    assert find_unsupported_settings(settings, "hub") == []
    assert find_unsupported_settings({"namespace": "anywhere"}, "") == [], "nobody knows what the service sees"


def a_pod(additions):
    """The pod of a server as the spawner makes it."""
    env = [{"name": name, "value": value} for name, value in additions.environment.items()]
    resources = {"limits": {"memory": 1, **additions.resources}, "requests": dict(additions.resources)}
    spec = {
        "containers": [
            {"name": "mesh", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]},
            {"name": "notebook", "env": env, "resources": resources},
        ],
        "initContainers": [{"name": "block-cloud-metadata", "securityContext": {"privileged": True}}],
    }
    if additions.node:
        terms = [{"matchExpressions": [{"key": "user", "operator": "Exists"}]}, {}]
        theirs = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": pinned_affinity(theirs, additions.node)}
    meta = {"labels": {"app": "x", **additions.labels}, "annotations": dict(additions.annotations)}
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize("additions", [SHARE, WHOLE, NONE])
def test_a_pod_that_nobody_has_changed_is_let_through(additions):
    assert explain_uncounted_gpu(a_pod(additions), additions, "notebook", ONLY) == ""


def _notebook(pod):
    return pod["spec"]["containers"][1]


def _mesh(pod):
    return pod["spec"]["containers"][0]


def _asks(container, amount="1"):
    container["resources"] = {"limits": {"nvidia.com/gpu": amount}}


CHANGES = {
    "was removed or changed": [
        lambda pod: pod["metadata"].update(labels={}),
        lambda pod: pod["metadata"]["labels"].update({"jupyter-gq.org/workload": "nb-2"}),
        lambda pod: pod["metadata"].update(annotations=None),
    ],
    "may run elsewhere": [
        lambda pod: pod["spec"].pop("affinity"),
        lambda pod: pod["spec"].update(nodeName="gpu-2"),
        lambda pod: pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ].append({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}),
    ],
    "no container notebook": [lambda pod: _notebook(pod).update(name="lab", env=[], resources={})],
    "privileged": [lambda pod: _notebook(pod).update(securityContext={"privileged": True})],
    "asks for nvidia.com/": [
        lambda pod: _asks(_mesh(pod)),
        lambda pod: _asks(_notebook(pod), "8"),
        lambda pod: _asks(pod["spec"]["initContainers"][0]),
        lambda pod: _mesh(pod).update(resources={"requests": {"nvidia.com/mig-1g.5gb": 1}}),
    ],
    "claims devices": [lambda pod: pod["spec"].update(resourceClaims=CLAIM)],
    "names devices": [
        lambda pod: _mesh(pod).update(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        lambda pod: _notebook(pod).update(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]),
        lambda pod: _notebook(pod).update(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]),
    ],
}


@pytest.mark.parametrize("additions", [SHARE, WHOLE])
@pytest.mark.parametrize(("words", "change"), [(words, each) for words, all_ in CHANGES.items() for each in all_])
def test_a_pod_that_a_hook_has_changed_is_refused_if_a_gpu_would_not_be_seen(additions, words, change):
    pod = copy.deepcopy(a_pod(additions))
    change(pod)
    sentence = explain_uncounted_gpu(pod, additions, "notebook", ONLY)
    assert words in sentence
    assert sentence.startswith("The server's pod cannot be created: ")
    assert sentence.endswith(". Ask your administrator.")


@pytest.mark.parametrize("words", ["asks for nvidia.com/", "claims devices", "names devices", "privileged"])
def test_a_server_without_a_share_gets_no_device_by_any_way(words):
    for change in CHANGES[words]:
        pod = copy.deepcopy(a_pod(NONE))
        change(pod)
        assert words in explain_uncounted_gpu(pod, NONE, "notebook", ONLY)


@pytest.mark.parametrize("additions", [SHARE, NONE])
def test_a_server_names_its_devices_so_that_its_image_does_not(additions):
    pod = a_pod(additions)
    _notebook(pod)["env"] = []
    assert "does not say in NVIDIA_VISIBLE_DEVICES" in explain_uncounted_gpu(pod, additions, "notebook", ONLY)


def test_a_container_beside_the_server_may_see_the_servers_own_devices():
    pod = a_pod(SHARE)
    _mesh(pod)["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-a"}]
    assert explain_uncounted_gpu(pod, SHARE, "notebook", ONLY) == ""


def test_an_administrator_who_withholds_no_resource_may_ask_for_any():
    pod = a_pod(NONE)
    _asks(_notebook(pod), "4")
    assert explain_uncounted_gpu(pod, NONE, "notebook", ()) == ""


def test_a_namespace_that_the_service_does_not_watch_is_named():
    assert explain_namespace("hub", "hub") == explain_namespace("anywhere", "") == ""
    assert explain_namespace("hub-ann", "hub").startswith(
        "The server would run in the namespace hub-ann, and the GPU service sees the servers of hub only."
    )

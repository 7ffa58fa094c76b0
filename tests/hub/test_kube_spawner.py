"""The spawner over KubeSpawner, without a cluster: its pod, its options, its settings. Runs with either Hub."""

import asyncio
import re
from pathlib import Path

import pytest
from kubernetes_asyncio import client
from kubespawner import version_info
from tornado.web import HTTPError
from traitlets.config import Config

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.hub.admission.admission import HeldShare, StartRefused
from jupyter_gq.hub.admission.waiting_servers import WaitingServers
from tests.hub.scripted_service import ScriptedService, waiting
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

HELD = PodAdditions(
    node="gpu-1",
    environment={"NVIDIA_VISIBLE_DEVICES": "GPU-aaaa", "JUPYTER_GQ_GPUS": "0.25"},
    labels={"jupyter-gq.org/workload": "nb-1", "jupyter-gq.org/attempt": "1"},
    annotations={"jupyter-gq.org/slot": "gpu-1/0"},
    runtime_class="nvidia",
    scheduler_name="gq-scheduler",
    tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    volumes=[{"name": "gq-device", "hostPath": {"path": "/dev/null"}}],
    volume_mounts=[{"name": "gq-device", "mountPath": "/var/run/nvidia-container-devices/GPU-aaaa"}],
)
SHARE = HeldShare(ticket="nb-1", gpus="0.25", environment=dict(HELD.environment), pod=HELD)
WHOLE = HeldShare(
    ticket="nb-2",
    gpus="1",
    environment={"JUPYTER_GQ_GPUS": "1"},
    pod=PodAdditions(node="gpu-2", resources={"nvidia.com/gpu": "1"}),
)
NONE = HeldShare(ticket="nb-3", gpus="0", environment={"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"})
#: What an administrator may have set before.
THEIRS = {
    "scheduler_name": "release-user-scheduler",
    "environment": {"NVIDIA_VISIBLE_DEVICES": "all", "MINE": "1"},
    "extra_labels": {"team": "a"},
    "node_affinity_required": [
        {"matchExpressions": [{"key": "purpose", "operator": "In", "values": ["user"]}]},
        {"matchExpressions": [{"key": "big", "operator": "Exists"}]},
    ],
    "pod_affinity_preferred": [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}],
    "tolerations": [{"key": "user", "operator": "Exists"}],
    "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "claim-{username}"}}],
    "volume_mounts": [{"name": "home", "mountPath": "/home"}],
    "mem_limit": "2G",
}
HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to/kubernetes-spawner.md"


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr("kubespawner.spawner.load_config", lambda **_: None)  # there is no cluster to look for
    from jupyter_gq.hub.kubernetes.spawner import GQKubeSpawner

    monkeypatch.setattr(GQKubeSpawner, "reflectors", {})

    def make(settings=None, *, share=None, options=None, **sections):
        config = Config({"KubeSpawner": settings or {}, **sections})
        spawner = GQKubeSpawner(_mock=True, config=config)
        spawner._share, spawner.user_options = share, options or {}
        return spawner

    return make


async def pod_of(spawner):
    pod = await spawner.get_pod_manifest()
    if spawner.modify_pod_hook:
        pod = spawner.modify_pod_hook(spawner, pod)
    return spawner.api.api_client.sanitize_for_serialization(pod)


def environment(pod):
    return {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}


async def test_a_share_is_merged_into_what_the_administrator_has_set(make):
    pod = await pod_of(make(THEIRS, share=SHARE))
    spec, notebook = pod["spec"], pod["spec"]["containers"][0]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [{**term, **here} for term in THEIRS["node_affinity_required"]]
    assert "podAffinity" in spec["affinity"]
    assert "nodeName" not in spec
    assert (spec["schedulerName"], spec["runtimeClassName"]) == ("gq-scheduler", "nvidia")
    assert [each["key"] for each in spec["tolerations"]] == ["user", "nvidia.com/gpu"]
    assert [each["name"] for each in spec["volumes"]] == ["home", "gq-device"]
    assert [each["mountPath"] for each in notebook["volumeMounts"]][1].endswith("GPU-aaaa")
    assert notebook["resources"] == {"limits": {"memory": 2 * 1024**3}, "requests": {}}
    assert environment(pod)["NVIDIA_VISIBLE_DEVICES"] == "GPU-aaaa"
    assert environment(pod)["MINE"] == "1"
    assert environment(pod)["JUPYTER_GQ_TICKET"] == "nb-1"
    labels = pod["metadata"]["labels"]
    assert (labels["team"], labels["jupyter-gq.org/workload"]) == ("a", "nb-1")
    assert labels["component"] == "singleuser-server"
    assert pod["metadata"]["annotations"]["jupyter-gq.org/slot"] == "gpu-1/0"


async def test_a_whole_gpu_is_the_device_plugins_to_name(make):
    pod = await pod_of(make(THEIRS, share=WHOLE))
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & environment(pod).keys()
    assert pod["metadata"]["labels"]["jupyter-gq.org/workload"] == "nb-2", "the service finds the pod by it"
    assert pod["spec"]["schedulerName"] == "release-user-scheduler"


async def test_what_the_administrator_puts_beside_a_notebook_sees_no_device_whatever_its_image_says(make):
    beside = {
        "extra_containers": [{"name": "proxy", "image": "cuda", "env": [{"name": "A", "value": "1"}]}],
        "init_containers": [
            {"name": "fetch", "image": "cuda"},
            {"name": "check", "image": "cuda", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
        ],
    }
    gpu = {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}, "requests": {"example.org/gpu": "2"}}
    beside["extra_containers"][0]["resources"] = gpu
    pools = {"pools": {"train": {"nodes": {}, "resource": "example.org/gpu"}}}
    for share in (SHARE, WHOLE, NONE):
        spec = (await pod_of(make({**THEIRS, **beside}, share=share, Pools=pools)))["spec"]
        assert spec["containers"][1]["resources"] == {"limits": {"cpu": "1"}, "requests": {}}
        others = {each["name"]: each["env"] for each in (*spec["containers"][1:], *spec["initContainers"])}
        void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
        assert others == {
            "proxy": [{"name": "A", "value": "1"}, void],
            "fetch": [void],
            "check": [void],
        }


async def test_without_a_gpu_the_pod_says_its_ticket_and_may_run_anywhere(make):
    pod = await pod_of(make(THEIRS, share=NONE))
    mine = {name: value for name, value in pod["metadata"]["labels"].items() if name.startswith("jupyter-gq.org/")}
    assert mine == {"jupyter-gq.org/workload": "nb-3"}, "the service knows it by that"
    assert "metadata.name" not in str(pod["spec"]["affinity"])
    assert [each["key"] for each in pod["spec"]["tolerations"]] == ["user"]
    assert environment(pod)["JUPYTER_GQ_TICKET"] == "nb-3"


async def test_a_gpu_and_then_none_on_one_spawner_leaves_nothing(make):
    """KubeSpawner merges the settings of a profile into those of the one before."""
    gpu = {"extra_resource_limits": {"nvidia.com/gpu": "1", "example.com/disk": "1"}, "environment": {"FROM": "gpu"}}
    profiles = [
        {"slug": "gpu", "display_name": "GPU", "gpus": "0.25", "kubespawner_override": {**gpu, "mem_limit": "9G"}},
        {"slug": "cpu", "display_name": "CPU", "kubespawner_override": {"environment": {"MORE": "1"}}},
    ]
    spawner = make({**THEIRS, "profile_list": profiles}, share=SHARE, options={"profile": "gpu"})
    plain = await pod_of(make(THEIRS, share=NONE))
    await spawner.load_user_options()
    with_gpu = await pod_of(spawner)
    assert with_gpu["spec"]["containers"][0]["resources"]["limits"] == {"memory": 9 * 1024**3, "example.com/disk": "1"}
    assert environment(with_gpu)["FROM"] == "gpu"

    spawner.clear_state()
    spawner.user_options, spawner._share = {"profile": "cpu"}, NONE
    await spawner.load_user_options()
    without = await pod_of(spawner)
    assert environment(without).pop("MORE") == "1"
    container = without["spec"]["containers"][0]
    container["env"] = [each for each in container["env"] if each["name"] != "MORE"]
    assert without == plain
    assert environment(without)["NVIDIA_VISIBLE_DEVICES"] == "void"


async def test_a_second_attempt_of_one_start_applies_the_profile_once(make):
    more = {"mem_limit": lambda spawner: spawner.mem_limit * 2, "environment": {"A": "1"}}
    profiles = [{"display_name": "Double", "kubespawner_override": more}]
    spawner = make({"mem_limit": "1G", "profile_list": profiles}, share=SHARE)
    spawner.environment = {"FROM_HOOK": "1"}  # set by a pre_spawn_hook: it is there in each attempt
    for _ in range(3):
        await spawner.load_user_options()
        assert spawner.mem_limit == 2 * 1024**3
        assert spawner.environment == {"FROM_HOOK": "1", "A": "1"}
    spawner.clear_state()
    assert (spawner.mem_limit, spawner.environment) == (1024**3, {"FROM_HOOK": "1"})


async def test_hooks_of_the_administrator_see_the_objects_that_they_know_and_have_the_last_word(make):
    def hook(spawner, pod):
        terms = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
        terms[0].match_expressions.append({"key": "hook", "operator": "Exists"})
        pod.spec.containers[0].env.append(client.V1EnvVar(name="HOOK", value=spawner.gpu_status.gpus))
        pod.spec.containers[0].resources.limits["nvidia.com/gpu"] = "8"
        pod.spec.tolerations[0].effect = "NoSchedule"
        return pod

    pod = await pod_of(make({**THEIRS, "modify_pod_hook": hook}, share=SHARE))
    assert environment(pod)["HOOK"] == "0"
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert pod["spec"]["tolerations"][0]["effect"] == "NoSchedule"


async def test_raw_settings_of_pod_and_container_are_merged_with_too(make):
    raw = {
        "extra_container_config": {
            "env": [{"name": "RAW", "value": "1"}],
            "resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "1"}},
            "securityContext": {"aFieldOfTomorrow": True},
        },
        "extra_pod_config": {
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "runtimeClassName": "theirs",
        },
    }
    pod = await pod_of(make(raw, share=SHARE))
    notebook = pod["spec"]["containers"][0]
    assert environment(pod) == {"RAW": "1", **HELD.environment}
    assert notebook["resources"]["limits"] == {"cpu": "1"}
    assert notebook["securityContext"] == {"aFieldOfTomorrow": True}
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    assert "gpu-1" in str(pod["spec"]["affinity"])
    kept = await pod_of(make(raw, share=NONE, GQKubeSpawner={"gpu_resources": []}))
    assert kept["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"


async def test_of_a_server_that_fails_the_end_of_its_log_is_kept_unless_the_administrator_says_otherwise(make):
    def policy(pod):
        return pod["spec"]["containers"][0]["terminationMessagePolicy"]

    for share in (SHARE, NONE):
        assert policy(await pod_of(make(THEIRS, share=share))) == "FallbackToLogsOnError"
    theirs = {"extra_container_config": {"terminationMessagePolicy": "File"}}
    assert policy(await pod_of(make(theirs, share=SHARE))) == "File"


async def test_the_servers_of_one_hub_wait_in_one_line_which_has_an_end(make, monkeypatch):
    monkeypatch.setattr("jupyter_gq.hub.mixin.GPUShareMixin.waiting_servers", WaitingServers(settling_seconds=0))
    with ScriptedService() as service:
        service.scripts["ann"].expect("POST tickets", waiting(0))
        service.scripts["ann"].expect("GET tickets/*", waiting(0))
        settings = {"service_url": service.url, "gpu_queue_length": 1}
        first, second = (make(options={"gpus": "0.25"}, GPUShareMixin=settings) for _ in range(2))
        second.handler = Handler()
        waits = asyncio.create_task(first.run_pre_spawn_hook())
        async with asyncio.timeout(scaled(30)):
            while not first.waiting_servers:
                await asyncio.sleep(0.01)
        with pytest.raises(HTTPError) as refusal:
            async with asyncio.timeout(scaled(30)):
                await second.run_pre_spawn_hook()
        assert refusal.value.jupyterhub_message.startswith("1 server waits for a GPU already")
        not_counted(refusal.value, second)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert not first.waiting_servers


async def test_settings_of_every_class_count(make):
    sections = {"GPUShareMixin": {"service_url": "http://gq/", "server_service_url": "http://proxy-public/gq/"}}
    spawner = make({"image": "mine"}, share=NONE, **sections, GQKubeSpawner={"gpu_place_retries": 5})
    assert (spawner.image, spawner.gpu_place_retries, spawner.service_url) == ("mine", 5, "http://gq/")
    assert spawner.get_env()["JUPYTER_GQ_URL"] == "http://proxy-public/gq/"
    assert make(share=NONE, GPUShareMixin={"service_url": "http://gq/"}).get_env()["JUPYTER_GQ_URL"] == "http://gq/"


async def asked(spawner):
    return (await spawner.require_share_request()).gpus


async def test_profiles_may_be_a_list_a_dict_or_made_by_a_function(make):
    profile = {"slug": "gpu", "display_name": "GPU", "gpus": "0.5"}

    async def later(spawner):
        await asyncio.sleep(0)
        return [{**profile, "display_name": spawner.user.name}]

    as_dict = [{"a": profile}] if version_info >= (7, 1) else []  # older ones know no dict
    for profiles in ([profile], *as_dict, lambda _: [profile], later):
        spawner = make({"profile_list": profiles}, options={"profile": "gpu"})
        assert await asked(spawner) == "0.5"
        await spawner.load_user_options()


@pytest.mark.parametrize(
    "options", [{"profile": "nope"}, {"profile": "gpu", "gpus": "1"}, {"garbage": 1}, {"profile": {}}, [1], "x"]
)
async def test_options_that_mean_nothing_are_refused_before_anything_is_asked_for(make, options):
    spawner = make({"profile_list": [{"slug": "gpu", "display_name": "GPU", "gpus": "0.5"}]}, options=options)
    spawner.handler = Handler()
    with pytest.raises(HTTPError) as refusal:
        await spawner._run_apply_user_options(options)
    assert refusal.value.status_code == 400
    assert refusal.value.jupyterhub_message
    not_counted(refusal.value, spawner)


class Handler:
    """What the Hub's request handler has to do with a refusal: the counter of Hub 5."""

    def __init__(self):
        self.settings = {"failure_count": 3}


def not_counted(refusal, spawner):
    """Hub 6 tells by the class; Hub 5 adds one afterwards."""
    try:
        from jupyterhub.spawner import SpawnException
    except ImportError:
        assert spawner.handler.settings["failure_count"] == 2
    else:
        assert isinstance(refusal, SpawnException)
        assert spawner.handler.settings["failure_count"] == 3


async def test_profiles_that_cannot_be_made_or_applied_are_refusals(make):
    def broken(_):
        raise KeyError("auth_state")

    spawner = make({"profile_list": broken})
    spawner.handler = Handler()
    with pytest.raises(HTTPError) as refusal:
        await spawner.require_share_request()
    assert "Ask your administrator" in refusal.value.jupyterhub_message
    not_counted(refusal.value, spawner)

    unfit = [{"display_name": "Odd", "kubespawner_override": {"mem_limit": "much"}}]
    spawner = make({"profile_list": unfit}, options={"profile": "odd"})
    spawner.handler = Handler()
    with pytest.raises(HTTPError) as refusal:
        await spawner.load_user_options()
    assert refusal.value.jupyterhub_message.startswith("The profile odd cannot be used")
    not_counted(refusal.value, spawner)


async def test_the_profiles_of_the_how_to_work(make):
    examples = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    example = next(block for block in examples if "profile_list" in block)
    c = Config()
    exec(example, {"c": c})
    expected = [({}, "0"), ({"profile": "small"}, "0.25"), ({"profile": "own-image", "gpu": "half"}, "0.5")]
    for options, gpus in [*expected, ({"profile": "as-you-like", "gpus": "1"}, "1")]:
        spawner = make(c.KubeSpawner, options=options)
        assert await asked(spawner) == gpus
        await spawner.load_user_options()
    assert spawner.image == "lab/base:1"


async def test_options_of_the_administrators_own_hooks_are_known_if_the_settings_name_them(make):
    assert (
        await asked(make(options={"image": "mine", "gpus": "1"}, GPUShareMixin={"other_user_options": ["image"]}))
        == "1"
    )
    assert await asked(make(options={"x": "y"}, GPUShareMixin={"other_user_options": ["*"]})) == "0"
    assert await asked(make(options={"memory": "1G"}, Spawner={"apply_user_options": {"memory": "mem_limit"}})) == "0"
    with pytest.raises(HTTPError):
        await asked(make(options={"image": "mine"}))


async def test_the_form_of_shares_and_profiles_is_read_together(make):
    spawner = make({"profile_list": [{"slug": "a", "display_name": "A"}]})
    form = {
        "gpus": ["0.25"],
        "profile": ["a"],
        "profile-option-a--image": ["x"],
        "profile-option-b--image": ["y"],
        "gpu": ["1"],
    }
    assert spawner.options_from_form(form) == {"gpus": "0.25", "profile": "a", "image": "x", "gpu": "1"}
    assert make({"options_from_form": lambda form: {"own": 1}}).options_from_form(form) == {"own": 1}


async def test_a_choice_that_has_become_impossible_is_not_preselected(make):
    spawner = make({"profile_list": [{"slug": "a", "display_name": "A"}]}, options={"profile": "gone"})
    form = spawner._render_options_form(spawner.profile_list)
    assert "gone" not in form
    assert spawner.user_options == {"profile": "gone"}
    spawner.user_options = {"profile": "a"}
    if version_info >= (7, 1):  # older ones preselect nothing
        assert '"profile": "a"' in spawner._render_options_form(spawner.profile_list)


async def test_what_is_saved_of_a_server_is_its_ticket_and_the_reason_of_its_end(make):
    spawner = make(share=SHARE)
    assert spawner.get_state()["jupyter_gq"] == {"ticket": "nb-1", "gpus": "0.25"}
    spawner.gpu_ended = "Your server ended: its node is gone."
    spawner.clear_state()
    state = spawner.get_state()
    assert "jupyter_gq" not in state
    again = make()
    again.load_state(state)
    assert again.gpu_ended == "Your server ended: its node is gone."


async def test_the_reflector_of_pods_records_why_a_pod_ended_however_it_learns_of_the_deletion(make):
    from jupyter_gq.hub.kubernetes.spawner import PodsWithEndReasons

    watched = PodsWithEndReasons(parent=make(), namespace="hub")
    pods = {f"hub/jupyter-{name}": killed_pod() for name in ("ann", "bob")}
    watched.resources = {**pods, "hub/jupyter-eve": {"status": {"phase": "Running"}}}
    assert watched.end_reasons == {}
    watched.resources.pop("hub/jupyter-ann")  # an event of the watch
    watched.resources.pop("hub/jupyter-eve")
    assert watched.end_reasons == {"hub/jupyter-ann": OUT_OF_MEMORY}, "a pod without a known cause has no sentence"
    watched.resources = {}  # a new list after an outage
    assert watched.end_reasons == {"hub/jupyter-ann": OUT_OF_MEMORY, "hub/jupyter-bob": OUT_OF_MEMORY}


OUT_OF_MEMORY = "Your server ended: it used more memory than its limit."


def killed_pod():
    """Return a pod whose notebook was killed for its memory."""
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    return {"status": {"containerStatuses": [{"name": "notebook", "state": state}]}}


class Cluster:
    """Notes the pods that it is asked to create."""

    def __init__(self):
        self.created = []

    async def create_namespaced_pod(self, namespace, pod):
        self.created.append((namespace, pod.metadata.name))


async def create(spawner, change=None):
    """Create the pod as a start does, after a hook that changes it; return what was created."""
    cluster = Cluster()
    pod = await spawner.get_pod_manifest()
    if change is not None:
        change(pod)
    cluster.api_client, spawner.api = spawner.api.api_client, cluster
    await spawner._make_create_pod_request(pod, 1)
    return cluster.created


def _drop_labels(pod):
    pod.metadata.labels = {}


def _ask_for_more(pod):
    pod.spec.containers[0].resources.limits["nvidia.com/gpu"] = "8"


@pytest.mark.parametrize(
    ("settings", "change", "words"),
    [
        ({"namespace": "hub"}, _drop_labels, "the label jupyter-gq.org/"),
        ({"namespace": "hub"}, _ask_for_more, "asks for nvidia.com/gpu: 8"),
        ({"namespace": "users"}, None, "in the namespace users"),
        ({"enable_user_namespaces": True}, None, "the GPU service sees the servers of hub only"),
        ({"namespace": "hub", "extra_pod_config": {"nodeName": "gpu-9"}}, None, "may run elsewhere"),
        ({"namespace": "hub", "extra_pod_config": {"resourceClaims": [{"name": "x"}]}}, None, "claims devices"),
    ],
)
async def test_a_pod_whose_gpu_the_service_would_not_see_is_not_created(make, settings, change, words):
    backend = {"hub_namespace": "hub"}
    spawner = make(settings, share=SHARE, KubernetesBackend=backend)
    with pytest.raises(StartRefused, match=words) as refused:
        await create(spawner, change)
    assert refused.value.reason == "gpu_unseen"
    assert not spawner._pod_made


async def test_a_container_that_a_hook_adds_sees_no_device_whatever_its_image_says(make):
    seen = []

    def add(pod):
        pod.spec.containers.insert(0, client.V1Container(name="mesh", image="cuda"))
        seen.append(pod)

    spawner = make({"namespace": "hub"}, share=SHARE, KubernetesBackend={"hub_namespace": "hub"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spawner), "forget_earlier_end", lambda self: None)
        created = await create(spawner, add)
    assert [namespace for namespace, _ in created] == ["hub"]
    (variable,) = seen[0].spec.containers[0].env
    assert (variable.name, variable.value) == ("NVIDIA_VISIBLE_DEVICES", "void")

"""A decision becomes a pod: just that one, wherever it is made."""

import re
from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import CheckpointFolders
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.holding_pods import placeholder_pod, reservation_pod
from jupyter_gq.backends.kubernetes.objects.manifests import (
    as_job,
    gang_service,
    training_pod,
    with_earlier_checkpoints,
    with_secrets,
)
from jupyter_gq.backends.kubernetes.objects.merging import merged, pinned
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.pod_pool import PodPool, ScaleUp
from jupyter_gq.domain.workload import TaskGroup, TaskPlacement
from tests.builders import a_job

OPTIONS = KubernetesOptions(
    installation="gq", hub_namespace="hub", nodes_namespace="nodes", training_namespace="train", service_url="http://s/"
)
ADDED = PodAdditions(node="n1", resources={"nvidia.com/gpu": "2"}, annotations={names.SLOTS: "n1/0,n1/1"})


def a_pod(options=OPTIONS, added=ADDED, tasks=1, task=0, **fields):
    job = a_job("digits", "vision", 2, id="job-1", run=3, tasks=tasks, **fields)
    return training_pod(job, task, added, {"GQ_STOP_GRACE": "30"}, "image@sha256:1", options)


def required(pod):
    node = pod["spec"]["affinity"]["nodeAffinity"]
    return node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def environment(pod):
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}


HERE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def test_secrets_are_references_into_a_secret_of_the_owner():
    options = replace(OPTIONS, user_secret="gq-{username}", pod_overrides={})
    job = a_job("j", "vision", 1, id="job-j", run=1)
    pod = training_pod(job, 0, ADDED, {"HF_TOKEN": "from somewhere"}, "i", options)
    given = with_secrets(pod, "Ann@example.org", ["HF_TOKEN"], options)["spec"]["containers"][0]["env"]
    (entry,) = [each for each in given if each["name"] == "HF_TOKEN"]
    assert set(entry) == {"name", "valueFrom"}
    source = entry["valueFrom"]["secretKeyRef"]
    assert (source["key"], source["name"][:18]) == ("HF_TOKEN", "gq-ann-example-org")
    assert with_secrets(pod, "ann", ["HF_TOKEN"], replace(options, user_secret="")) == pod
    assert with_secrets(pod, "ann", [], options) == pod


@pytest.mark.parametrize("user", ["Ann", "ann@example.org", "ann--x", "a" * 31, "-ann", "änn"])
def test_no_user_can_choose_a_name_that_leads_to_another_s_secret(user):
    part = names.user_part(user)
    assert part != user
    assert names.user_part(part) != part
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", f"gq-{part}")
    assert len(part) <= 60
    assert names.user_part("ann-2") == "ann-2"


def test_the_node_is_required_by_its_name_as_a_field_and_not_by_node_name():
    pod = a_pod()
    assert required(pod) == [{"matchFields": [HERE]}]
    assert "nodeName" not in pod["spec"]


def test_the_node_goes_into_every_term_that_is_there():
    ssd, hdd = ({"matchExpressions": [{"key": "disk", "operator": "In", "values": [d]}]} for d in ("ssd", "hdd"))
    terms = {"nodeSelectorTerms": [ssd, hdd]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = a_pod(replace(OPTIONS, pod_overrides={"spec": {"affinity": affinity}}))
    assert required(pod) == [{**ssd, "matchFields": [HERE]}, {**hdd, "matchFields": [HERE]}]
    assert "matchFields" not in ssd, "what was given is not changed"


def test_a_term_that_matches_no_node_is_not_made_to_match_one():
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, ssd]}}}
    pod = a_pod(replace(OPTIONS, pod_overrides={"spec": {"affinity": affinity}}))
    assert required(pod) == [{}, {**ssd, "matchFields": [HERE]}]


def test_a_training_pod_has_no_rights_one_token_and_is_never_restarted():
    spec = a_pod()["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "gq-runner"
    assert spec["restartPolicy"] == "Never"
    assert spec["enableServiceLinks"] is False
    (token,) = [volume["projected"]["sources"] for volume in spec["volumes"] if "projected" in volume]
    assert token == [{"serviceAccountToken": {"audience": "jupyter-gq", "expirationSeconds": 3600, "path": "token"}}]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_whose_it_is_stands_in_its_labels_and_it_is_no_single_user_server():
    labels = a_pod(task=1, tasks=2)["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "gq-training"
    wanted = {names.INSTALLATION: "gq", names.WORKLOAD: "job-1", names.ATTEMPT: "3", names.TASK: "1"}
    assert wanted.items() <= labels.items()
    assert "component" not in labels


def test_the_runner_is_told_what_it_is_and_where_its_last_word_goes():
    pod = a_pod()
    told = environment(pod)
    assert {"GQ_JOB_ID": "job-1", "GQ_RUN": "3", "GQ_TASK": "0", "GQ_SERVICE_URL": "http://s/"}.items() <= told.items()
    assert told["GQ_STOP_GRACE"] == "30"
    container = pod["spec"]["containers"][0]
    assert container["terminationMessagePath"] == told["GQ_TERMINATION_LOG"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert container["command"] == ["python", "-m", "jupyter_gq.runner", "--pod"]
    assert "RANK" not in told


def test_the_tasks_of_a_gang_find_each_other_by_the_service_of_their_run():
    job = a_job("digits", "vision", id="job-1", run=3, tasks=2)
    service = gang_service(job, OPTIONS)
    pod = a_pod(tasks=2, task=1)
    assert pod["spec"]["subdomain"] == service["metadata"]["name"] == "gq-job-1-3"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    told = environment(pod)
    assert told["MASTER_ADDR"] == "gq-job-1-3-0.gq-job-1-3.train.svc"
    assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"]) == ("1", "2", "0")
    assert (told["PET_NODE_RANK"], told["PET_NNODES"], told["NPROC_PER_NODE"]) == ("1", "2", "2")
    assert (told["PET_MASTER_ADDR"], told["PET_MASTER_PORT"]) == (told["MASTER_ADDR"], "29500")
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_each_task_asks_for_what_its_group_needs():
    job = a_job("two", "vision", 1, tasks=2, run=1)
    larger = replace(job.request, memory=4096)
    groups = tuple(
        TaskGroup(name=name, request=request, tasks=1, min_members=1)
        for name, request in (("small", job.request), ("large", larger))
    )
    placement = tuple(TaskPlacement(node="n1", group=group.name) for group in groups)
    job = replace(job, groups=groups, placement=placement)
    resources = [
        training_pod(job, task, PodAdditions(node="n1"), {}, "i", OPTIONS)["spec"]["containers"][0]["resources"]
        for task in range(2)
    ]
    assert resources == [{}, {"requests": {"memory": "4096Mi"}, "limits": {"memory": "4096Mi"}}]


@pytest.mark.parametrize(("memory", "size"), [(0, "1Gi"), (1, "1Mi"), (1024, "512Mi"), (64 * 1024, "32768Mi")])
def test_shared_memory_is_part_of_the_memory_that_a_job_names(memory, size):
    """What lies there is charged to the container, whose limit that memory is."""
    job = a_job("digits", "vision", 1, id="job-1", run=3)
    job = replace(job, request=replace(job.request, memory=memory))
    spec = training_pod(job, 0, ADDED, {}, "i", OPTIONS)["spec"]
    (mount,) = [each["name"] for each in spec["containers"][0]["volumeMounts"] if each["mountPath"] == "/dev/shm"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == mount]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": size}


def test_an_administrator_says_another_size_of_shared_memory():
    larger = {"spec": {"volumes": [{"name": "gq-shm", "emptyDir": {"sizeLimit": "8Gi"}}]}}
    volumes = a_pod(replace(OPTIONS, pod_overrides=larger))["spec"]["volumes"]
    assert [each["emptyDir"] for each in volumes if each["name"] == "gq-shm"] == [
        {"medium": "Memory", "sizeLimit": "8Gi"}
    ]


def test_processors_and_memory_are_asked_for_as_the_job_said():
    job = a_job("digits", "vision", 2, id="job-1", run=1)
    job = replace(job, request=replace(job.request, cpu_milli=1500, memory=2048))
    pod = training_pod(job, 0, ADDED, {}, "image", OPTIONS)
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "2048Mi", "nvidia.com/gpu": "2"},
    }


def test_a_job_that_continues_reads_the_folder_of_its_own_owner_s_earlier_job_and_cannot_write_there():
    options = replace(OPTIONS, checkpoint_claim="states")
    job = a_job("j", "vision", 1, id="job-2", run=1, owner="Ann@example.org")
    pod = training_pod(job, 0, ADDED, {}, "i", options)
    assert with_earlier_checkpoints(pod, job, "", options) == pod
    (runner,) = with_earlier_checkpoints(pod, job, "../bob/job-1", options)["spec"]["containers"]
    own, earlier = [mount for mount in runner["volumeMounts"] if mount["name"] == "gq-checkpoint"]
    assert earlier["readOnly"]
    assert "readOnly" not in own
    assert own["subPath"].split("/")[0] == earlier["subPath"].split("/")[0] == names.user_part("Ann@example.org")
    assert len(earlier["subPath"].split("/")) == 2, "no id leads out of the owner's folder"
    told = {each["name"]: each["value"] for each in runner["env"]}
    assert (told["GQ_CONTINUE_FROM"], told["GQ_CONTINUE_DIR"]) == ("../bob/job-1", earlier["mountPath"])
    assert runner["command"] == ["python", "-m", "jupyter_gq.runner", "--pod-continuing"]


def test_a_job_that_continues_from_a_url_mounts_nothing_more():
    options = replace(OPTIONS, checkpoint_url="s3://bucket/states")
    job = a_job("j", "vision", 1, id="job-2", run=1)
    pod = training_pod(job, 0, ADDED, {}, "i", options)
    (runner,) = with_earlier_checkpoints(pod, job, "job-1", options)["spec"]["containers"]
    assert runner["volumeMounts"] == pod["spec"]["containers"][0]["volumeMounts"]
    told = {each["name"]: each["value"] for each in runner["env"]}
    assert told["GQ_CONTINUE_FROM"] == "job-1"
    assert "GQ_CONTINUE_DIR" not in told


def test_checkpoints_are_shared_by_the_tasks_in_a_volume_and_each_task_has_its_own_at_a_url():
    assert OPTIONS.checkpoint_folders is None
    assert replace(OPTIONS, checkpoint_url="s3://bucket/x").checkpoint_folders is CheckpointFolders.EACH_TASK
    assert replace(OPTIONS, checkpoint_claim="states").checkpoint_folders is CheckpointFolders.SHARED
    both = replace(OPTIONS, checkpoint_claim="states", checkpoint_url="s3://bucket/x")
    assert both.checkpoint_folders is CheckpointFolders.SHARED


def test_owners_do_not_share_a_folder_of_the_checkpoint_claim():
    def folder_of(owner):
        pod = a_pod(replace(OPTIONS, checkpoint_claim="states"), owner=owner)
        (mount,) = [m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["name"] == "gq-checkpoint"]
        return mount["subPath"].rpartition("/")[0]

    folders = {owner: folder_of(owner) for owner in ("ann", "Ann", "a/../nn", "")}
    assert len(set(folders.values())) == 4
    assert not any(".." in folder for folder in folders.values())
    assert folder_of(folders["Ann"]) != folders["Ann"], "nobody may choose the name of another user's folder as a name"


def test_an_override_changes_what_it_names_and_never_whose_pod_it_is():
    over = {
        "metadata": {"labels": {"team": "x", names.WORKLOAD: "job-9"}, "name": "mine"},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {"name": "runner", "env": [{"name": "HF_HOME", "value": "/c"}, {"name": "HOME", "value": "/h"}]}
            ],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
    }
    pod = a_pod(replace(OPTIONS, pod_overrides=over))
    assert pod["metadata"]["name"] == "gq-job-1-3-0"
    assert pod["metadata"]["labels"][names.WORKLOAD] == "job-1"
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["spec"]["restartPolicy"] == "Never"
    assert len(pod["spec"]["containers"]) == 1
    assert environment(pod)["HF_HOME"] == "/c"
    assert environment(pod)["HOME"] == "/h"


def test_what_an_override_puts_beside_a_job_sees_no_device_whatever_its_image_says():
    """CUDA images say `all`, and the job would be stopped for what its sidecar sees."""
    own = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    over = {
        "spec": {
            "containers": [
                {"name": "proxy", "image": "cuda", "env": [{"name": "A", "value": "1"}]},
                {"name": "dcgm", "image": "cuda", "env": own},
                {"name": "other", "image": "cuda", "resources": {"limits": {"example.org/nic": "1"}}},
            ],
            "initContainers": [{"name": "fetch", "image": "cuda"}],
        }
    }
    options = KubernetesBackend(hub_namespace="hub", pod_overrides=over).options()
    spec = a_pod(replace(OPTIONS, pod_overrides=options.pod_overrides))["spec"]
    said = {
        each["name"]: [one["value"] for one in each.get("env", ()) if one["name"] == "NVIDIA_VISIBLE_DEVICES"]
        for each in (*spec["containers"], *spec["initContainers"])
    }
    assert said == {"runner": [], "proxy": ["void"], "dcgm": ["none"], "other": [], "fetch": ["void"]}
    assert {"name": "A", "value": "1"} in spec["containers"][1]["env"]
    assert "initContainers" not in a_pod()["spec"]


def test_an_override_moves_no_pod_and_takes_no_gpu_of_a_pool_that_came_later():
    """The settings were read before anybody knew that this resource is counted."""
    asks = {"limits": {"example.org/gpu": "4", "cpu": "2"}, "requests": {"example.org/gpu": "4"}}
    over = {
        "metadata": {"namespace": "default", "annotations": {names.SLOTS: "n2/7", "note": "x"}},
        "spec": {
            "nodeName": "n2",
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}],
            "containers": [{"name": "runner", "resources": asks}, {"name": "side", "resources": asks}],
            "initContainers": [{"name": "first", "resources": asks}],
        },
    }
    added = ADDED.model_copy(update={"resources": {"example.org/gpu": "2"}})
    pod = a_pod(replace(OPTIONS, pod_overrides=over), added)
    meta, spec = pod["metadata"], pod["spec"]
    assert (meta["namespace"], meta["annotations"]) == (
        "train",
        {names.SLOTS: "n1/0,n1/1", names.TASKS: "1", "note": "x"},
    )
    assert not {"nodeName", "resourceClaims"} & spec.keys()
    assert required(pod) == [{"matchFields": [HERE]}]
    had = {each["name"]: each["resources"] for each in (*spec["containers"], *spec["initContainers"])}
    none = {"limits": {"cpu": "2"}, "requests": {}}
    ours = {"limits": {"cpu": "2", "example.org/gpu": "2"}, "requests": {"example.org/gpu": "2"}}
    assert had == {"runner": ours, "side": none, "first": none}
    assert environment({"spec": {"containers": [spec["containers"][1]]}}) == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_named_things_are_merged_and_other_lists_follow_each_other():
    assert merged({"a": [1], "b": {"c": 1}}, {"a": [2], "b": {"d": 2}}) == {"a": [1, 2], "b": {"c": 1, "d": 2}}
    volumes = [{"name": "v", "emptyDir": {}}]
    assert merged(volumes, [{"name": "v", "emptyDir": {"medium": "Memory"}}, {"name": "w"}]) == [
        {"name": "v", "emptyDir": {"medium": "Memory"}},
        {"name": "w"},
    ]
    mounts = [{"name": "v", "mountPath": "/a"}]
    assert len(merged(mounts, [{"name": "v", "mountPath": "/b"}])) == 2


def test_a_job_makes_the_same_pod_once():
    pod = a_pod()
    job = as_job(pod)
    assert job["spec"]["template"]["spec"] == pod["spec"]
    assert job["spec"]["template"]["metadata"]["labels"] == pod["metadata"]["labels"]
    assert (job["spec"]["backoffLimit"], job["spec"]["completions"]) == (0, 1)


def test_a_reservation_holds_one_device_is_pinned_and_not_moved():
    pool = PodPool(name="p", tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},))
    options = replace(OPTIONS, reservation_priority_class="high")
    pod = reservation_pod("n1/0", pool, options)
    assert pod == reservation_pod("n1/0", pool, options), "made twice is one"
    assert required(pod) == [{"matchFields": [HERE]}]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    of_the_pool, *of_silent_nodes = pod["spec"]["tolerations"]
    assert of_the_pool == {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert [(each["key"], each["effect"], "tolerationSeconds" in each) for each in of_silent_nodes] == [
        ("node.kubernetes.io/not-ready", "NoExecute", False),
        ("node.kubernetes.io/unreachable", "NoExecute", False),
    ]
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["metadata"]["annotations"][names.SLOT] == "n1/0"
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_without_a_node_a_pod_goes_where_it_may():
    assert pinned({"spec": {}}, None) == {"spec": {}}


@pytest.mark.parametrize("node", ["n", "gpu-1.example.org", "a" * 200, "x" * 62 + "." + "x" * 62])
def test_names_are_dns_labels_and_no_two_slots_share_one(node):
    slots = [names.slot_of(node, index) for index in range(11)] + [names.slot_of(f"{node}-1", 0)]
    found = {names.reservation_name(slot, number) for slot in slots for number in (0, 1)}
    assert len(found) == 2 * len(slots)
    assert all(len(name) <= 63 and name.strip("-") == name and name.replace("-", "").isalnum() for name in found)
    assert names.node_of(slots[3]) == node


def test_a_job_with_a_strange_name_has_names_of_its_own_that_the_api_takes():
    odd = [names.training_name(job, 12, 3) for job in ("job-1", "Job_1", "job.1", "j" * 100, "j" * 101, "-")]
    assert len(set(odd)) == len(odd)
    assert all(len(name) <= 63 and "_" not in name and name == name.lower() for name in odd)


GROWING = PodPool(
    name="large",
    selector={"pool": "large"},
    scale_up=ScaleUp(gpus=8, nodes=4),
    tolerations=({"key": "gpu", "operator": "Exists"},),
)


def test_a_placeholder_fits_a_whole_node_of_its_pool_and_no_named_one():
    pod = placeholder_pod(GROWING, 3, replace(OPTIONS, placeholder_priority_class="low"))
    meta, spec = pod["metadata"], pod["spec"]
    assert (meta["name"], meta["namespace"]) == ("gq-grow-large-3", "nodes")
    assert meta["labels"][names.COMPONENT] == "gq-placeholder"
    assert meta["annotations"] == {names.GROWS: "large", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"pool": "large"}, "low")
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert "affinity" not in spec
    assert spec["automountServiceAccountToken"] is False


def test_a_placeholder_keeps_off_nodes_that_would_have_room_for_it():
    pod = placeholder_pod(GROWING, 0, OPTIONS, ["n2", "n1"])
    assert required(pod) == [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
                {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
            ]
        }
    ]

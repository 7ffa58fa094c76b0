"""Manifests of what the backend makes. Pure: the same decision gives the same pod, whoever makes it and when.

Rules
-----
1. Node. Every term of the node affinity requires the node by the field `metadata.name`. The scheduler still checks
   everything else. Terms are alternatives, so a term without the node would let the pod go elsewhere.
2. Overrides. An administrator's overrides come before what identifies a pod, says where it runs and gives it devices:
   those parts are ours. `pod_overrides` refuses such overrides when the settings are read.
3. Security. Pods keep to the restricted pod security, have no token of the API server, and are never restarted in
   place.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.backends.gang import Rendezvous, gang_environment
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.run_size import SIZE_FILE
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import POD_FIELDS
from jupyter_gq.client.pods.sidecars import hide_devices
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.workload import Request, Workload

from . import names
from .merging import merged, pinned, variables, with_additions

AUDIENCE = "jupyter-gq"
TOKEN_FOLDER = "/var/run/secrets/jupyter-gq"  # noqa: S105 - a folder
TOKEN_SECONDS = 3600
MASTER_PORT = 29500
TERMINATION_LOG = "/dev/termination-log"
#: Seconds from SIGTERM to SIGKILL unless the deletion says otherwise.
GRACE = 30
_JOB_DIR, _HOME, _CHECKPOINTS, _EARLIER = "/gq/job", "/gq/home", "/gq/checkpoint", "/gq/continue-from"
#: Size of the shared memory of a job that names no memory.
_SHARED_MEMORY = "1Gi"
#: The user of the Jupyter images; `pod_overrides` can name another.
_USER, _GROUP = 1000, 100


def training_pod(
    workload: Workload,
    task: int,
    added: PodAdditions,
    environment: Mapping[str, str],
    image: str,
    options: KubernetesOptions,
) -> JsonObject:
    """Return the manifest of the pod of one task of a run.

    `added` has what the pod carries for its devices, and the node to which it is pinned. The overrides of `options` are
    merged in, except where they touch what identifies the pod, its node, its devices or the restart policy.
    """
    name = names.training_name(workload.id, workload.run, task)
    asked = _asked(workload, task)
    runner = {**_runner(workload, task, environment, image, options), "resources": _resources(asked)}
    spec: JsonObject = {
        "restartPolicy": "Never",
        "hostname": name,
        "serviceAccountName": names.RUNNER_ACCOUNT,
        "terminationGracePeriodSeconds": GRACE,
        "securityContext": pod_security(),
        "containers": [runner],
        "volumes": [*_volumes(asked, options), *(volume for volume, _ in _list_shared(workload, options))],
    }
    if workload.tasks > 1:
        spec["subdomain"] = names.gang_name(workload.id, workload.run)
    meta = {
        "name": name,
        "namespace": options.training_namespace,
        "labels": task_labels(workload, task, options.installation),
        "annotations": {names.TASKS: str(workload.tasks)},
    }
    pod = with_additions(plain_pod(meta, spec, options, options.training_priority_class), added)
    return _ours(merged(pod, options.pod_overrides), pod["metadata"], added)


def with_secrets(pod: JsonObject, owner: str, secrets: Sequence[str], options: KubernetesOptions) -> JsonObject:
    """Return the pod of a task with the secrets of its owner as variables, which the kubelet fills in.

    A container does not start while one of them is missing. See docs/decisions/0132-read-secrets-where-the-job-runs.md.
    """
    if not secrets or not options.user_secret:
        return pod
    source = options.user_secret.replace("{username}", names.user_part(owner))
    added = [{"name": key, "valueFrom": {"secretKeyRef": {"name": source, "key": key}}} for key in secrets]
    containers = [
        {**each, "env": [*(set_ for set_ in each.get("env", ()) if set_["name"] not in secrets), *added]}
        if each["name"] == names.RUNNER
        else each
        for each in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def with_earlier_checkpoints(
    pod: JsonObject, workload: Workload, earlier: str, options: KubernetesOptions
) -> JsonObject:
    """Return the pod of a task that begins with the checkpoints of an earlier job of the same owner; "" = of none.

    The folder of that job in the volume is mounted read-only. The path has the owner of `workload` in it, so that no id
    of a job leads to the folder of another user. The command is `--pod-continuing`, at which a runner of an older
    release ends: it would ignore the variables.
    See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
    """
    if not earlier:
        return pod
    told = {"GQ_CONTINUE_FROM": earlier}
    mounts = []
    if options.checkpoint_claim:
        told["GQ_CONTINUE_DIR"] = _EARLIER
        folder = f"{names.user_part(workload.owner)}/{names.slug(earlier)}"
        mounts = [{"name": "gq-checkpoint", "mountPath": _EARLIER, "subPath": folder, "readOnly": True}]
    containers = [
        {
            **each,
            "command": ["--pod-continuing" if word == "--pod" else word for word in each["command"]],
            "env": [*(set_ for set_ in each.get("env", ()) if set_["name"] not in told), *variables(told)],
            "volumeMounts": [*each["volumeMounts"], *mounts],
        }
        if each["name"] == names.RUNNER
        else each
        for each in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def plain_pod(meta: JsonMapping, spec: JsonObject, options: KubernetesOptions, priority_class: str) -> JsonObject:
    """Return a pod with this metadata and spec, and with what all pods of ours have in common.

    `priority_class` "" means the cluster's default.
    """
    common: JsonObject = {"automountServiceAccountToken": False, "enableServiceLinks": False}
    if priority_class:
        common["priorityClassName"] = priority_class
    if options.image_pull_secrets:
        common["imagePullSecrets"] = [{"name": secret} for secret in options.image_pull_secrets]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": dict(meta), "spec": {**common, **spec}}


def as_job(pod: JsonObject) -> JsonObject:
    """Return a Job that makes this pod once."""
    meta = pod["metadata"]
    template_meta = {"labels": meta["labels"], "annotations": meta.get("annotations", {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": meta["labels"]},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            # Only our controller starts anything again.
            "podReplacementPolicy": "Failed",
            "template": {"metadata": template_meta, "spec": pod["spec"]},
        },
    }


def gang_service(workload: Workload, options: KubernetesOptions) -> JsonObject:
    """Return the headless service that gives the tasks of a gang their DNS names."""
    selector = {
        names.INSTALLATION: options.installation,
        names.WORKLOAD: workload.id,
        names.ATTEMPT: str(workload.run),
    }
    labels = {**names.labels(options.installation, names.TRAINING), **selector}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.gang_name(workload.id, workload.run),
            "namespace": options.training_namespace,
            "labels": labels,
        },
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            # The tasks look for each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "ports": [{"name": "master", "port": MASTER_PORT}],
        },
    }


def task_labels(workload: Workload, task: int, installation: str) -> dict[str, str]:
    """Return the labels of the pod of a task, which name installation, job, run and task."""
    return {
        **names.labels(installation, names.TRAINING),
        names.WORKLOAD: workload.id,
        names.ATTEMPT: str(workload.run),
        names.TASK: str(task),
    }


def _gang_variables(workload: Workload, task: int, options: KubernetesOptions) -> Mapping[str, str]:
    """Return the variables by which the tasks of a gang find each other: the first pod has a name of its own."""
    first = names.training_name(workload.id, workload.run, 0)
    gang = names.gang_name(workload.id, workload.run)
    address = f"{first}.{gang}.{options.training_namespace}.svc"
    rendezvous = Rendezvous(
        tasks=workload.tasks,
        address=address,
        port=MASTER_PORT,
        least=workload.min_members if workload.can_shrink else None,
        name=f"{workload.id}-{workload.run}",
    )
    size_file = {"GQ_SIZE_FILE": f"{_JOB_DIR}/{SIZE_FILE}"} if workload.can_shrink else {}
    return {**gang_environment(task, _asked(workload, task).devices, rendezvous), **size_file}


def _ours(pod: JsonObject, meta: JsonMapping, added: PodAdditions) -> JsonObject:
    """Return the pod with our metadata, node, devices and restart policy, whatever the overrides say.

    `meta` is what the metadata was before. Containers other than the runner are kept from having and seeing devices.
    """
    marks = {part: {**pod["metadata"][part], **meta[part]} for part in ("labels", "annotations")}
    spec = {key: value for key, value in pod["spec"].items() if key not in POD_FIELDS}
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [_grant_devices(each, added) for each in spec[part]]
    spec = hide_devices({**spec, "restartPolicy": "Never"}, names.RUNNER)
    return pinned({**pod, "metadata": {**meta, **marks}, "spec": spec}, added.node)


def _grant_devices(container: JsonObject, added: PodAdditions) -> JsonObject:
    """Return the container with the devices that these additions give to it: only the runner has any."""
    ours = added.resources if container["name"] == names.RUNNER else {}
    resources = {
        side: {**{name: amount for name, amount in amounts.items() if name not in added.resources}, **ours}
        for side, amounts in container.get("resources", {}).items()
        if side in ("requests", "limits")
    }
    return {**container, "resources": {**container.get("resources", {}), **resources}} if resources else container


# --- parts of a training pod


def _runner(
    workload: Workload, task: int, environment: Mapping[str, str], image: str, options: KubernetesOptions
) -> JsonObject:
    told = {
        **environment,
        "GQ_JOB_ID": workload.id,
        "GQ_RUN": str(workload.run),
        "GQ_TASK": str(task),
        "GQ_SERVICE_URL": options.service_url,
        "GQ_TOKEN_FILE": f"{TOKEN_FOLDER}/token",
        "GQ_JOB_DIR": _JOB_DIR,
        "GQ_TERMINATION_LOG": TERMINATION_LOG,
        "GQ_CHECKPOINT_DIR": _CHECKPOINTS,
        "HOME": _HOME,
        "PYTHONUNBUFFERED": "1",
        **_gang_variables(workload, task, options),
    }
    if options.checkpoint_url:
        told["GQ_CHECKPOINT_URL"] = options.checkpoint_url
    return {
        "name": names.RUNNER,
        "image": image,
        "command": ["python", "-m", "jupyter_gq.runner", "--pod"],
        "env": variables(told),
        "securityContext": container_security(),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "gq-job", "mountPath": _JOB_DIR},
            {"name": "gq-home", "mountPath": _HOME},
            {"name": "gq-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
            {"name": "gq-shm", "mountPath": "/dev/shm"},  # noqa: S108 - the shared memory of data loaders
            _checkpoint_mount(workload, options),
            *(mount for _, mount in _list_shared(workload, options)),
        ],
    }


def _asked(workload: Workload, task: int) -> Request:
    return workload.request_of(workload.placement[task].group if task < len(workload.placement) else "")


def _resources(asked: Request) -> JsonObject:
    requests: JsonObject = {}
    limits: JsonObject = {}
    if asked.cpu_milli:
        requests["cpu"] = f"{asked.cpu_milli}m"
    if asked.memory:
        requests["memory"] = limits["memory"] = f"{asked.memory}Mi"
    return {side: amounts for side, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _shared_memory(asked: Request) -> str:
    """Return the size of the shared memory: half of the container's memory, as Linux gives half of a machine's."""
    return f"{max(1, asked.memory // 2)}Mi" if asked.memory else _SHARED_MEMORY


def _checkpoint_mount(workload: Workload, options: KubernetesOptions) -> JsonObject:
    mount = {"name": "gq-checkpoint", "mountPath": _CHECKPOINTS}
    if options.checkpoint_claim:
        # Owners are told apart by folder: no choice of a user name reaches the folder of another user.
        mount["subPath"] = f"{names.user_part(workload.owner)}/{names.slug(workload.id)}"
    return mount


def _list_shared(workload: Workload, options: KubernetesOptions) -> list[tuple[JsonObject, JsonObject]]:
    """Return volume and mount of each shared volume: the home of the job's owner, and data."""
    named = [(f"gq-shared-{number}", volume) for number, volume in enumerate(options.shared_volumes)]
    owner = names.hub_user(workload.owner)
    return [(volume.make_volume(name, owner), volume.make_mount(name, owner)) for name, volume in named]


def _volumes(asked: Request, options: KubernetesOptions) -> list[JsonObject]:
    token = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    checkpoint: JsonObject = {"name": "gq-checkpoint", "emptyDir": {}}
    if options.checkpoint_claim:
        checkpoint = {"name": "gq-checkpoint", "persistentVolumeClaim": {"claimName": options.checkpoint_claim}}
    return [
        {"name": "gq-job", "emptyDir": {}},
        {"name": "gq-home", "emptyDir": {}},
        {"name": "gq-token", "projected": {"sources": [{"serviceAccountToken": token}]}},
        {"name": "gq-shm", "emptyDir": {"medium": "Memory", "sizeLimit": _shared_memory(asked)}},
        checkpoint,
    ]


def pod_security() -> JsonObject:
    """Return the security context of a pod that the restricted pod security demands, with the user of the images."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _GROUP,
        "fsGroup": _GROUP,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> JsonObject:
    """Return the security context of a container that the restricted pod security demands."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

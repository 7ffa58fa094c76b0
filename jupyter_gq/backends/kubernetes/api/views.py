"""Views of pods and nodes: the few fields that are kept of the API server's JSON. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.models.jobs import MOST_TASKS
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.json_types import JsonMapping

from .containers import Ended, read_main_container
from .quantities import quantity

_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class PodView:
    """The kept fields of a pod."""

    namespace: str
    name: str
    uid: str
    #: Version of the object; views that differ in nothing else are equal.
    version: int = field(default=0, compare=False)
    #: Time of creation, as the API server writes times.
    created: str = ""
    #: Labels of ours, by key.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Annotations of ours, by key.
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: Keys of labels and annotations of ours that were taken from the pod or changed since it was first seen.
    lost_marks: tuple[str, ...] = ()
    #: What the cluster changed at the creation of a pod of a Job; see `changes`. Bare pods are compared when created.
    changed: tuple[str, ...] = ()
    #: "" = not bound yet.
    node: str = ""
    phase: str = "Pending"
    #: Reason of the whole pod: Evicted, UnexpectedAdmissionError, ...
    reason: str = ""
    message: str = ""
    #: True if the pod was told to end.
    terminating: bool = False
    #: The scheduler's message while it finds no place; "" = none.
    unschedulable: str = ""
    #: Why no scheduler tries to place the pod, such as its scheduling gates; "" = no reason is known.
    held_back: str = ""
    #: Reason and message of the condition DisruptionTarget; "" = no disruption.
    disruption: str = ""
    disruption_message: str = ""
    #: This field and those below are about the main container: the one that does the work.
    image: str = ""
    image_id: str = ""
    #: None = no limit.
    memory_limit: MiB | None = None
    #: The container runs, or has run.
    has_run: bool = False
    #: Why the container does not start.
    waiting: str = ""
    waiting_message: str = ""
    #: The image of an init container for which the main container waits; "" = it waits for none.
    waiting_image: str = ""
    #: The end of the container; with some restart policies it may start again.
    ended: Ended | None = None
    #: The container has ended for good, whatever other containers do.
    ended_for_good: bool = False
    #: Why the container never began, such as an init container that failed.
    never_began: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def finished(self) -> bool:
        """True if all containers have ended: the pod holds nothing any more."""
        return self.phase in _FINISHED

    @property
    def has_begun(self) -> bool:
        """True if the main container has begun. A sidecar that does not start keeps the whole pod in Pending."""
        return self.phase != "Pending" or self.has_run

    @property
    def is_over(self) -> bool:
        """True if the work has ended. A sidecar may run on, and then the pod still holds its devices."""
        return self.finished or self.ended_for_good

    @property
    def workload(self) -> str:
        """The job or ticket that the pod belongs to; "" if the pod names none."""
        return self.labels.get(names.WORKLOAD, "")

    @property
    def attempt(self) -> int:
        """The number of the run that the pod belongs to; 0 if the pod names none."""
        return _number(self.labels.get(names.ATTEMPT), 0)

    @property
    def task(self) -> int:
        """The number of the pod's task; 0 if the pod names none that a job can have."""
        task = _number(self.labels.get(names.TASK), 0)
        return task if 0 <= task < MOST_TASKS else 0

    @property
    def of_tasks(self) -> int:
        """The number of tasks of the pod's run; 1 if the pod names none that a job can have."""
        tasks = _number(self.annotations.get(names.TASKS), 1)
        return tasks if 0 < tasks <= MOST_TASKS else 1

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that the pod holds; empty if it holds no device, or if its annotation is not one of ours."""
        return names.read_slots(self.annotations.get(names.SLOTS))

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the pod was given by name, one for each slot; empty if the device plugin chose them."""
        return names.listed(self.annotations.get(names.DEVICES))


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """The kept fields of a node."""

    name: str
    #: Version of the object, as of a pod.
    version: int = field(default=0, compare=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    #: Why the node is not ready, in its own words.
    message: str = ""
    cordoned: bool = False
    #: (key, value, effect).
    taints: tuple[tuple[str, str, str], ...] = ()
    #: Amounts of extended resources, such as nvidia.com/gpu.
    devices: Mapping[str, int] = field(default_factory=dict)
    cpu_milli: int | None = None
    memory_mib: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The empty namespace and the name."""
        return ("", self.name)


def pod_view(pod: JsonMapping) -> PodView:
    """Return the kept fields of a pod's JSON."""
    meta, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    disruption = conditions.get("DisruptionTarget") or {}
    disrupted = disruption.get("status") == "True"
    main = read_main_container(pod)
    return PodView(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        version=_number(meta.get("resourceVersion"), 0),
        created=meta.get("creationTimestamp") or "",
        labels=_ours(meta.get("labels")),
        annotations=_ours(meta.get("annotations")),
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        terminating=bool(meta.get("deletionTimestamp")),
        unschedulable=_unschedulable(conditions.get("PodScheduled")),
        held_back=_held_back(spec, conditions.get("PodScheduled")),
        disruption=(disruption.get("reason") or "Disrupted") if disrupted else "",
        disruption_message=(disruption.get("message") or "") if disrupted else "",
        image=main.image,
        image_id=main.image_id,
        memory_limit=main.memory_limit,
        has_run=main.has_run,
        waiting=main.waiting,
        waiting_message=main.waiting_message,
        waiting_image=main.waiting_image,
        ended=main.ended,
        ended_for_good=main.ended_for_good,
        never_began=main.never_began,
    )


def node_view(node: JsonMapping) -> NodeView:
    """Return the kept fields of a node's JSON."""
    meta, spec, status = node.get("metadata") or {}, node.get("spec") or {}, node.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    allocatable = status.get("allocatable") or {}
    memory = quantity(allocatable.get("memory"))
    cpu = quantity(allocatable.get("cpu"))
    return NodeView(
        name=meta.get("name", ""),
        version=_number(meta.get("resourceVersion"), 0),
        labels=dict(meta.get("labels") or {}),
        ready=ready.get("status") == "True",
        message=str(ready.get("message") or ready.get("reason") or ""),
        cordoned=bool(spec.get("unschedulable")),
        taints=tuple(
            (str(t.get("key", "")), str(t.get("value", "")), str(t.get("effect", ""))) for t in spec.get("taints") or ()
        ),
        devices={key: int(quantity(text) or 0) for key, text in allocatable.items() if "/" in key},
        cpu_milli=None if cpu is None else int(cpu * 1000),
        memory_mib=None if memory is None else int(memory) // 2**20,
    )


def _unschedulable(condition: JsonMapping | None) -> str:
    if condition is None or condition.get("status") != "False" or condition.get("reason") != "Unschedulable":
        return ""
    return str(condition.get("message") or "no node suits it")


def _held_back(spec: JsonMapping, condition: JsonMapping | None) -> str:
    if gates := [str(each.get("name", "")) for each in spec.get("schedulingGates") or ()]:
        return f"its scheduling gates have not been removed: {', '.join(gates)}"
    if condition is None or condition.get("status") != "False" or condition.get("reason") == "Unschedulable":
        return ""
    return f"{condition.get('reason') or 'no reason given'}: {condition.get('message') or 'no message given'}"


def _ours(entries: Mapping[str, str] | None) -> dict[str, str]:
    return {
        key: value for key, value in (entries or {}).items() if key.startswith(names.PREFIX) or key == names.COMPONENT
    }


def _number(text: object, otherwise: int) -> int:
    try:
        return int(str(text))
    except ValueError:
        return otherwise

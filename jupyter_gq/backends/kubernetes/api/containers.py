"""The main container of a pod, the one that does the work, as the API server's JSON shows it. Pure.

Rules
-----
- The name rule: the main container is known by its name, which follows from the labels of the pod. Webhooks and
  overrides put sidecars beside it, at any index of the lists of the spec and of the status.
- The end rule: the main container has ended for good if its restart policy does not start it again. Sidecars may run
  on, so the phase of the pod does not say that.
- The init rule: if the main container waits for an init container that is in trouble, that trouble is told.

See docs/decisions/0069-end-a-run-with-its-main-container.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.amount import Instant, MiB
from jupyter_gq.domain.json_types import JsonMapping

from .quantities import quantity

_ALWAYS, _ON_FAILURE = "Always", "OnFailure"
#: Reasons with which a container waits for what comes before it, and not because of trouble.
NO_TROUBLE = frozenset({"", "PodInitializing", "ContainerCreating"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The end of a container."""

    exit_code: int
    reason: str = ""
    #: The text that the container wrote to its termination log, or the end of its log.
    message: str = ""
    #: When the node says that the container ended, by the clock of the node; None if it does not say.
    finished_at: Instant | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MainContainer:
    """The kept fields of a pod's main container; `PodView` explains each."""

    image: str
    image_id: str
    memory_limit: MiB | None
    has_run: bool
    waiting: str
    waiting_message: str
    waiting_image: str
    ended: Ended | None
    ended_for_good: bool
    never_began: str


def read_main_container(pod: JsonMapping) -> MainContainer:
    """Return the state of a pod's main container, from the pod's JSON. Texts without a value are "", `ended` is None.

    If the main container waits for an init container that is in trouble, the `waiting` fields are those of that init
    container, and `waiting_image` is its image.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    meta = pod.get("metadata") or {}
    main = _find_main(spec, names.main_container(meta.get("labels") or {}))
    shown = _find_status(status.get("containerStatuses"), main)
    state = shown.get("state") or {}
    ended = _read_end(state.get("terminated"))
    waiting, waiting_image = state.get("waiting") or {}, ""
    if (waiting.get("reason") or "") in NO_TROUBLE and ended is None and "running" not in state:
        blocking = next(_find_blocking_init_containers(spec, status), None)
        if blocking is not None:
            waiting, waiting_image = blocking
    limit = quantity(((main.get("resources") or {}).get("limits") or {}).get("memory"))
    is_deleted = bool(meta.get("deletionTimestamp"))
    has_run = "running" in state or ended is not None
    policy = main.get("restartPolicy") or spec.get("restartPolicy") or _ALWAYS
    return MainContainer(
        image=str(main.get("image") or ""),
        image_id=str(shown.get("imageID") or ""),
        memory_limit=None if limit is None else MiB(int(limit) // 2**20),
        has_run=has_run,
        waiting=str(waiting.get("reason") or ""),
        waiting_message=str(waiting.get("message") or ""),
        waiting_image=waiting_image,
        ended=ended,
        ended_for_good=ended is not None and (is_deleted or not _starts_again(policy, ended)),
        never_began="" if has_run else _describe_failed_init_container(spec, status),
    )


def _find_main(spec: JsonMapping, name: str) -> JsonMapping:
    """Return the spec of the container with this name, else that of the first container; {} if there is none."""
    containers = spec.get("containers") or ()
    return next((each for each in containers if each.get("name") == name), next(iter(containers), {}))


def _find_status(statuses: object, container: JsonMapping) -> JsonMapping:
    """Return the status of a container; an empty one if there is none."""
    known = statuses if isinstance(statuses, list | tuple) else ()
    return next((each for each in known if each.get("name") == container.get("name")), {})


def _starts_again(policy: str, ended: Ended) -> bool:
    return policy == _ALWAYS or (policy == _ON_FAILURE and ended.exit_code != 0)


def _find_blocking_init_containers(spec: JsonMapping, status: JsonMapping) -> Iterator[tuple[JsonMapping, str]]:
    """Yield the waiting state and the image of each init container that waits because of trouble."""
    for each in spec.get("initContainers") or ():
        state = _find_status(status.get("initContainerStatuses"), each).get("state") or {}
        waiting = state.get("waiting") or {}
        if (waiting.get("reason") or "") not in NO_TROUBLE:
            yield waiting, str(each.get("image") or "")


def _describe_failed_init_container(spec: JsonMapping, status: JsonMapping) -> str:
    """Return a clause that names the first init container that failed, with its exit code and message; "" = none."""
    for each in spec.get("initContainers") or ():
        shown = _find_status(status.get("initContainerStatuses"), each)
        ended = _read_end((shown.get("state") or {}).get("terminated"))
        if ended is not None and ended.exit_code != 0:
            message = " ".join(ended.message.split())
            return f"its init container {each.get('name')} ended with exit code {ended.exit_code}" + (
                f": {message}" if message else ""
            )
    return ""


def _read_end(state: JsonMapping | None) -> Ended | None:
    if not state:
        return None
    code = state.get("exitCode")
    return Ended(
        exit_code=code if isinstance(code, int) else -1,
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or ""),
        finished_at=_read_time(state.get("finishedAt")),
    )


def _read_time(text: object) -> Instant | None:
    """Return a time that the API server wrote, in seconds since the epoch; None if there is none."""
    try:
        at = datetime.fromisoformat(str(text)).timestamp() if text else 0.0
    except ValueError:
        return None
    # A container that never began has a time of the year 1.
    return Instant(at) if at > 0 else None

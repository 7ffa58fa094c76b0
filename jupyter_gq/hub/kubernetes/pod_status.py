"""Sentences about the status of pods and events of the cluster: pure functions.

Events and statuses come from several programs and versions; each field except the name may be missing.
"""

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

_NOTEBOOK = "notebook"
_WHY_DISRUPTED = {
    "PreemptionByScheduler": "Kubernetes needed its place for something with a higher priority",
    "DeletionByTaintManager": "its node must not be used any more",
    "EvictionByEvictionAPI": "an administrator drained its node",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node was short of memory or disk, or was shut down",
}
_OUT_OF_MEMORY = "OOMKilled"
_FINISHED = frozenset({"Succeeded", "Failed"})


def explain_end(pod: JsonMapping | None) -> str:
    """Return a sentence on why the server in this pod ended or is ending; "" if no cause is known."""
    if not pod:
        return ""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _disrupted(condition)
    if status.get("phase") == "Failed" and status.get("reason"):
        return f"The cluster ended your server ({status['reason']}{_detail(status.get('message'))})."
    for container in status.get("containerStatuses") or ():
        if container.get("name") == _NOTEBOOK:
            return _terminated((container.get("state") or {}).get("terminated"))
    return ""


def is_running(pod: JsonMapping | None) -> bool:
    """Return whether the pod runs, has an address, is not being deleted, and its containers are ready.

    A sidecar that has ended need not be ready. Unlike KubeSpawner's check, an incomplete status raises no error.
    """
    status = (pod or {}).get("status") or {}
    containers = status.get("containerStatuses") or ()
    return bool(
        pod
        and status.get("phase") == "Running"
        and status.get("podIP")
        and not (pod.get("metadata") or {}).get("deletionTimestamp")
        and any(container.get("name") == _NOTEBOOK for container in containers)
        and all(container.get("ready") or _is_ended_sidecar(container) for container in containers)
    )


def find_exit_code(pod: JsonMapping | None) -> int | None:
    """Return the exit code of a server that has ended in a pod where other containers run on; None otherwise.

    An ended server without a code counts as 1.
    """
    status = (pod or {}).get("status") or {}
    if status.get("phase") in _FINISHED:
        return None
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated")
        if container.get("name") == _NOTEBOOK and terminated:
            code = terminated.get("exitCode")
            return code if isinstance(code, int) else 1
    return None


def complete_event(event: JsonMapping) -> JsonObject:
    """Return the event with all fields that KubeSpawner reads; the API leaves out empty fields."""
    metadata = event.get("metadata") or {}
    happened = event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp") or ""
    return {
        **event,
        "metadata": {"uid": "", **metadata},
        "involvedObject": {"name": "", **(event.get("involvedObject") or {})},
        "lastTimestamp": happened,
        "type": event.get("type") or "Normal",
        "message": event.get("message") or event.get("reason") or "",
    }


def _is_ended_sidecar(container: JsonMapping) -> bool:
    return container.get("name") != _NOTEBOOK and bool((container.get("state") or {}).get("terminated"))


def _disrupted(condition: JsonMapping) -> str:
    """Return the sentence for a condition of the type DisruptionTarget."""
    reason = condition.get("reason") or ""
    why = _WHY_DISRUPTED.get(reason)
    if why is None:
        return f"The cluster ended your server ({reason or 'no reason given'}{_detail(condition.get('message'))})."
    return f"Your server ended: {why}."


def _terminated(state: JsonMapping | None) -> str:
    """Return the sentence for the terminated state of a container; "" if it ended by itself without an error."""
    if not state:
        return ""
    if state.get("reason") == _OUT_OF_MEMORY:
        return "Your server ended: it used more memory than its limit."
    code = state.get("exitCode")
    if code in (0, None):
        return ""
    # The message is the end of the server's log (see `spawner`); the last line names the error.
    last = (state.get("message") or "").strip().rpartition("\n")[2]
    return f"Your server ended with exit code {code}{_detail(last)}."


def _detail(message: str | None) -> str:
    """Return the first line of a message, shortened and with a leading ": ", or "" if there is none."""
    lines = (message or "").strip().splitlines()
    return f": {lines[0][:200].rstrip('.')}" if lines else ""

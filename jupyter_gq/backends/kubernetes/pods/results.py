"""The result of a task, from the last view of its pod; the result of a run, from its tasks; and trouble before an end.

Rules
-----
- The last-report rule: the runner's own last report counts most. A runner may only claim success,
  failure or a pause.
- The disruption rule: a pod that others took away is LOST, whatever its exit code, for evictors kill with the codes of
  crashes. If it was taken away on purpose, the job is not to blame. A node that is gone or ran out of resources may be
  the work of the job.
- The hopeless-trouble rule: trouble that no time mends ends the run at once. Trouble that may pass gets `pull_timeout`
  seconds (see `runs.judging`). So does a reason that is not listed here, such as that of a sidecar which crashes again
  and again: it is told with its own words.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from jupyter_gq.backends.kubernetes.api.containers import NO_TROUBLE, Ended
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.memory_kill import MemoryKill

#: Outcomes that a runner may report of itself.
_CLAIMS = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED})
#: Outcomes of tasks, from the one that counts most for the whole run.
_WEIGHT = (Outcome.FAILED, Outcome.REFUSED, Outcome.LOST, Outcome.KILLED, Outcome.PAUSED, Outcome.SUCCEEDED)
#: What disrupted a pod, by the reason that the cluster gives.
_DISRUPTIONS = {
    "PreemptionByScheduler": "The cluster's scheduler gave the pod's place to a pod of higher priority",
    "DeletionByTaintManager": "The node was given a taint that the pod does not tolerate",
    "EvictionByEvictionAPI": "Somebody drained the node, or evicted the pod",
    "DeletionByPodGC": "The node is gone",
    "TerminationByKubelet": "The node ran out of resources or was shut down, and ended the pod",
}
#: The disruptions that somebody wanted, as opposed to those that a job may have caused.
_WANTED = frozenset({"PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI"})
#: Reasons with which a kubelet rejects a pod: what the core counted on was not free.
_NOT_ADMITTED = frozenset(
    {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "Preempting"}
)
#: Reasons of a waiting container that no time mends.
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
#: Reasons of a waiting container that lie in its image and may pass.
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
#: Reasons of a waiting container that lie in its description or in what it names, and may pass.
_NOT_MADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_OUT_OF_MEMORY = "OOMKilled"
#: Reasons of an ended container that the runtime could not start.
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
#: The most characters of another program's text in a sentence.
_MOST_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """How a task or a run ended."""

    outcome: Outcome
    #: For the owner.
    sentence: str = ""
    #: Whether somebody else ended the task on purpose.
    disrupted: bool = False


def read_result(pod: PodView | None, *, stopped: bool) -> Result:
    """Return the result of a task from the last view of its pod.

    `stopped`: the task was asked to end. None as pod: the pod is gone and was never seen to end. A claim of the runner
    counts most, then the reasons of the cluster, then the exit code.
    """
    if pod is None:
        return _result_of_deleted(stopped)
    claim = _read_claim(pod)
    if claim is not None and claim.outcome is Outcome.FAILED and pod.ended is not None:
        claim = replace(claim, sentence=_add_memory_kill(pod, pod.ended, claim.sentence))
    if claim is not None and (claim.outcome is not Outcome.FAILED or not pod.disruption):
        if claim.outcome is Outcome.PAUSED and pod.disruption and not stopped:
            return replace(claim, sentence=_describe_disruption(pod))
        return claim
    if pod.disruption and not stopped:
        disrupted = pod.disruption in _WANTED
        return Result(outcome=Outcome.LOST, sentence=_describe_disruption(pod), disrupted=disrupted)
    if pod.reason in _NOT_ADMITTED or pod.reason.startswith("OutOf"):
        return Result(
            outcome=Outcome.REFUSED, sentence=f"The node {pod.node} rejected the pod: {one_line(pod.message)}"
        )
    if pod.reason in {"Evicted", "NodeShutdown", "Terminated", "NodeLost"}:
        sentence = f"The node {pod.node} ended the pod ({pod.reason}): {one_line(pod.message)}"
        return Result(outcome=Outcome.LOST, sentence=sentence)
    if pod.ended is None and pod.finished and not stopped:
        why = f": {one_line(pod.never_began)}" if pod.never_began else "."
        return Result(outcome=Outcome.LOST, sentence=f"The pod {pod.name} ended before its container began{why}")
    if pod.ended is None:
        return _result_of_deleted(stopped)
    return _result_by_exit_code(pod, pod.ended, stopped)


def read_server_result(pod: PodView) -> Result:
    """Return the result of a notebook that ended although nobody asked for it.

    A server that crashed is LOST, with the last line of its log as the reason. A container that could not start is
    FAILED. For all other ends see `read_result`.
    """
    ended = pod.ended
    if ended is None or pod.disruption or pod.reason or ended.exit_code == 0 or ended.reason == _OUT_OF_MEMORY:
        return read_result(pod, stopped=False)
    if ended.reason in _CANNOT_START:
        return _not_started(ended)
    last = one_line(last_line(ended.message))
    sentence = f"The server ended with {_describe_exit_code(ended.exit_code)}{f': {last}' if last else '.'}"
    return Result(outcome=Outcome.LOST, sentence=sentence)


def combine_results(results: Mapping[int, Result], tasks: int) -> Result:
    """Return the result of a run from those of its tasks, by number: the first that weighs most, with its task.

    `tasks` is the number of tasks that the run was asked to have.

    The order of weight is FAILED, REFUSED, LOST, KILLED, PAUSED, SUCCEEDED.
    """
    task = min(results, key=lambda number: (_WEIGHT.index(results[number].outcome), number))
    worst = results[task]
    return worst if worst.outcome in (Outcome.SUCCEEDED, Outcome.PAUSED) else name_task(worst, task, tasks)


def name_task(result: Result, task: int, tasks: int) -> Result:
    """Return the result with "Task 1 of 4: " before its sentence; the same result if the run has one task."""
    if tasks == 1:
        return result
    return replace(result, sentence=f"Task {task} of {tasks}: {result.sentence}")


def find_trouble(pod: PodView) -> tuple[str, bool]:
    """Return why the container does not start, as a sentence for the owner, and whether time may mend that.

    ("", True) means that nothing is known to be wrong.
    """
    if pod.waiting in NO_TROUBLE:
        return "", True
    told = one_line(pod.waiting_message)
    if pod.waiting in _NOT_MADE:
        sentence = f"The container cannot be made: {told or f'{pod.waiting}.'}"
    elif pod.waiting in _IMAGE or pod.waiting in _HOPELESS:
        image = pod.waiting_image or pod.image
        sentence = f"The image {image} cannot be used ({pod.waiting}): {told or f'{pod.waiting}.'}"
    else:
        sentence = f"A container of the pod {pod.name} does not start ({pod.waiting}){f': {told}' if told else '.'}"
    return sentence, pod.waiting not in _HOPELESS


def _result_of_deleted(stopped: bool) -> Result:
    """Return the result of a task whose pod went without showing an end: KILLED if it was stopped, otherwise LOST."""
    if stopped:
        sentence = "The process was told to end, did not end in time, and was killed."
        return Result(outcome=Outcome.KILLED, sentence=sentence)
    return Result(outcome=Outcome.LOST, sentence="The pod was deleted by somebody else.", disrupted=True)


def _read_claim(pod: PodView) -> Result | None:
    """Return what the runner reported of itself; None without a readable report of SUCCEEDED, FAILED or PAUSED."""
    if pod.ended is None:
        return None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        result = bounded_json.parse(pod.ended.message)
        outcome = Outcome(result["outcome"])
        if outcome in _CLAIMS:
            return Result(outcome=outcome, sentence=str(result.get("sentence") or ""))
    return None


def _result_by_exit_code(pod: PodView, ended: Ended, stopped: bool) -> Result:
    code, message = ended.exit_code, ended.message
    if ended.reason == _OUT_OF_MEMORY:
        return Result(outcome=Outcome.FAILED, sentence=_add_memory_kill(pod, ended, ""))
    if code == 127 or "No module named jupyter_gq" in message or "No module named 'jupyter_gq" in message:
        sentence = f"The image {pod.image} has no jupyter-gq, so no job can run in it; choose one that has."
        return Result(outcome=Outcome.FAILED, sentence=sentence)
    if ended.reason in _CANNOT_START or code == 128:
        return _not_started(ended)
    if stopped:
        return _result_of_deleted(stopped) if code != 0 else Result(outcome=Outcome.PAUSED)
    if code == 0:
        return Result(outcome=Outcome.SUCCEEDED)
    last = f" Last message: {one_line(message)}" if message.strip() else ""
    how = _describe_exit_code(code)
    return Result(outcome=Outcome.LOST, sentence=f"The process ended without a result ({how}).{last}")


def _add_memory_kill(pod: PodView, ended: Ended, sentence: str) -> str:
    """Return the sentence with the node's words on memory if those end the container and the runner had none."""
    kill = MemoryKill(limit=pod.memory_limit)
    if ended.reason != _OUT_OF_MEMORY or kill.remedy in sentence:
        return sentence
    return f"{sentence} The container was killed because {kill.explain('it')}. {kill.remedy}".lstrip()


def _not_started(ended: Ended) -> Result:
    return Result(outcome=Outcome.FAILED, sentence=f"The container could not be started: {one_line(ended.message)}")


def _describe_exit_code(code: int) -> str:
    return f"signal {code - 128}" if 128 < code < 160 else f"exit code {code}"


def _describe_disruption(pod: PodView) -> str:
    what = _DISRUPTIONS.get(pod.disruption, f"The pod was disrupted ({pod.disruption})")
    told = one_line(pod.disruption_message)
    return f"{what}: {told}" if told else f"{what}."


def one_line(text: str) -> str:
    """Return the text on one line, cut to 400 characters, ending as a sentence does; "" for an empty text."""
    line = " ".join(text.split())
    line = line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
    return line if not line or line.endswith((".", "…", "!")) else f"{line}."


def last_line(text: str) -> str:
    """Return the last line that is not empty, where the end of a log usually names the cause; "" if there is none."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")

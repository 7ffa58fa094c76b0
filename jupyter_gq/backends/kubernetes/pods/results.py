"""How a task ended, from what its pod shows last; how a run ended, from its tasks; and what is wrong before an end.

Rules
-----
1. What the runner said last counts most. It may only claim that it succeeded, failed or paused.
2. A pod that others took away was lost, whatever its exit code: evictors kill with the codes of crashes.
3. Trouble that no time will mend ends the run at once; trouble that may pass gets `pull_timeout` seconds.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from jupyter_gq.backends.kubernetes.api.views import Ended, PodView
from jupyter_gq.backends.protocol import Outcome

_CLAIMS = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED})
#: What counts most for the whole run comes first.
_WEIGHT = (Outcome.FAILED, Outcome.REFUSED, Outcome.LOST, Outcome.KILLED, Outcome.PAUSED, Outcome.SUCCEEDED)
#: Who disrupts pods, by the reason that the cluster gives.
_DISRUPTIONS = {
    "PreemptionByScheduler": "The cluster's scheduler gave its place to a pod of higher priority",
    "DeletionByTaintManager": "Its node was given a taint that it does not tolerate",
    "EvictionByEvictionAPI": "Somebody drained its node, or evicted it",
    "DeletionByPodGC": "Its node is gone",
    "TerminationByKubelet": "Its node ran out of resources or was shut down, and ended it",
}
#: The kubelet does not take what the core counted on: the place was not to be had.
_NOT_ADMITTED = frozenset(
    {"UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "Preempting"}
)
#: No time mends these.
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
#: These may pass.
_TROUBLE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "CreateContainerConfigError", "CreateContainerError"}
    | {"RunContainerError", "ImageInspectError"}
)
_OUT_OF_MEMORY = "OOMKilled"
#: The runtime could not begin it.
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
_MOST_WORDS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """How a task or a run ended."""

    outcome: Outcome
    #: For the owner.
    sentence: str = ""


def read_result(pod: PodView | None, *, stopped: bool) -> Result:
    """How that task ended; None: its pod is gone and was never seen to end. `stopped`: it was told to end."""
    if pod is None:
        return _gone(stopped)
    claim = _claim(pod)
    if claim is not None and (claim.outcome is not Outcome.FAILED or not pod.disruption):
        if claim.outcome is Outcome.PAUSED and pod.disruption and not stopped:
            return replace(claim, sentence=_disrupted(pod))
        return claim
    if pod.disruption and not stopped:
        return Result(outcome=Outcome.LOST, sentence=_disrupted(pod))
    if pod.reason in _NOT_ADMITTED or pod.reason.startswith("OutOf"):
        return Result(outcome=Outcome.REFUSED, sentence=f"Its node {pod.node} did not take it: {one_line(pod.message)}")
    if pod.reason in {"Evicted", "NodeShutdown", "Terminated", "NodeLost"}:
        return Result(
            outcome=Outcome.LOST, sentence=f"Its node {pod.node} ended it ({pod.reason}): {one_line(pod.message)}"
        )
    if pod.ended is None:
        return _gone(stopped)
    return _by_exit_code(pod, stopped)


def read_server_result(pod: PodView) -> Result:
    """How a notebook ended that nobody told to. It has no runner: what it says of it is the last line of its log."""
    ended = pod.ended
    if ended is None or pod.disruption or pod.reason or ended.exit_code == 0 or ended.reason == _OUT_OF_MEMORY:
        return read_result(pod, stopped=False)
    if ended.reason in _CANNOT_START:
        return _not_started(ended)
    last = one_line(last_line(ended.message))
    sentence = f"Its server ended with {_how(ended.exit_code)}{f': {last}' if last else '.'}"
    return Result(outcome=Outcome.LOST, sentence=sentence)


def combine_results(results: Sequence[Result]) -> Result:
    """Return the result of a run from those of its tasks, in their order: the one that weighs most."""
    task = min(range(len(results)), key=lambda i: (_WEIGHT.index(results[i].outcome), i))
    worst = results[task]
    return worst if worst.outcome in (Outcome.SUCCEEDED, Outcome.PAUSED) else name_task(worst, task, len(results))


def name_task(result: Result, task: int, tasks: int) -> Result:
    """Return the result of a run that ended like one of its tasks, and say which task if there are several."""
    if tasks == 1:
        return result
    return Result(outcome=result.outcome, sentence=f"Task {task} of {tasks}: {result.sentence}")


def find_trouble(pod: PodView) -> tuple[str, bool]:
    """Why its container does not start, for the owner, and whether time may mend that; ("", True) when nothing is."""
    if pod.waiting not in _HOPELESS and pod.waiting not in _TROUBLE:
        return "", True
    told = one_line(pod.waiting_message) or f"{pod.waiting}."
    if pod.waiting in {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}:
        sentence = f"Its container cannot be made: {told}"
    else:
        sentence = f"The image {pod.image} cannot be used ({pod.waiting}): {told}"
    return sentence, pod.waiting not in _HOPELESS


def _gone(stopped: bool) -> Result:
    if stopped:
        sentence = "It was told to end and did not do so in its time, so it was killed."
        return Result(outcome=Outcome.KILLED, sentence=sentence)
    return Result(outcome=Outcome.LOST, sentence="Its pod was deleted by somebody else.")


def _claim(pod: PodView) -> Result | None:
    if pod.ended is None:
        return None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        result = json.loads(pod.ended.message)
        outcome = Outcome(result["outcome"])
        if outcome in _CLAIMS:
            return Result(outcome=outcome, sentence=str(result.get("sentence") or ""))
    return None


def _by_exit_code(pod: PodView, stopped: bool) -> Result:
    assert pod.ended is not None
    code, message = pod.ended.exit_code, pod.ended.message
    if pod.ended.reason == _OUT_OF_MEMORY:
        return Result(
            outcome=Outcome.FAILED, sentence="It used more memory of its node than its limit allows, and was killed."
        )
    if code == 127 or "No module named jupyter_gq" in message or "No module named 'jupyter_gq" in message:
        sentence = f"The image {pod.image} has no jupyter-gq, so no job can run in it; choose one that has."
        return Result(outcome=Outcome.FAILED, sentence=sentence)
    if pod.ended.reason in _CANNOT_START or code == 128:
        return _not_started(pod.ended)
    if stopped:
        return _gone(stopped) if code != 0 else Result(outcome=Outcome.PAUSED)
    if code == 0:
        return Result(outcome=Outcome.SUCCEEDED)
    last = f" Its last words: {one_line(message)}" if message.strip() else ""
    return Result(outcome=Outcome.LOST, sentence=f"Its process vanished without a word ({_how(code)}).{last}")


def _not_started(ended: Ended) -> Result:
    return Result(outcome=Outcome.FAILED, sentence=f"Its container could not be started: {one_line(ended.message)}")


def _how(code: int) -> str:
    return f"signal {code - 128}" if 128 < code < 160 else f"exit code {code}"


def _disrupted(pod: PodView) -> str:
    what = _DISRUPTIONS.get(pod.disruption, f"It was disrupted ({pod.disruption})")
    told = one_line(pod.disruption_message)
    return f"{what}: {told}" if told else f"{what}."


def one_line(text: str) -> str:
    """One line, not too long, ending as a sentence does."""
    line = " ".join(text.split())
    line = line if len(line) <= _MOST_WORDS else f"{line[:_MOST_WORDS]}…"
    return line if not line or line.endswith((".", "…", "!")) else f"{line}."


def last_line(text: str) -> str:
    """Where the end of a log tells why, that is there."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")

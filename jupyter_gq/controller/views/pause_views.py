"""The view of the checkpoints of a job: what a pause costs, and those with which the job begins."""

from datetime import UTC, datetime
from typing import Final

from jupyter_gq.client.models import JobPhase, PauseView, PauseWay
from jupyter_gq.controller.suspended_runs import has_suspended_run
from jupyter_gq.domain.amount import Instant
from jupyter_gq.store.protocol import Record

#: The two parts of the sentence about a running job that would be suspended. A job that must leave its GPU is ended.
_SUSPENDED_FOR_OTHERS: Final = (
    "If it is held, or paused for other work, nothing is lost: its GPU memory is moved to host memory."
)
_NOT_KNOWN_YET: Final = "Whether a pause keeps its GPU memory is not known yet. If not, the job"
_IF_IT_MUST_LEAVE: Final = "If it must leave its GPU, because that is drained or work is moved together, it"


def pause_view(record: Record, phase: JobPhase, *, suspendable: bool | None) -> PauseView | None:
    """Return what the pause of a job costs, or would cost.

    None for a job that was never started, that is being cancelled or that has ended.
    `suspendable` tells whether a running job would be suspended; None = that is not known yet, and not promised.
    """
    if phase not in {"starting", "running", "pausing", "paused"} or not record.workload.run:
        return None
    if phase == "pausing":
        suspendable = _is_being_suspended(record)
    way = _way_of(record, phase, suspendable is True)
    saved_at = record.workload.checkpointed_at
    if way == "restart" and not _has_begun(record):
        return PauseView(way=way, sentence=_describe_start(phase))
    if way != "suspended" and phase in {"running", "pausing"} and suspendable is None:
        return PauseView(way=way, sentence=f"{_NOT_KNOWN_YET} {_describe_new_run(phase, saved_at)}")
    return PauseView(way=way, sentence=_describe(way, phase, saved_at))


def _has_begun(record: Record) -> bool:
    """Return whether the code of a job may have run: False until its files and an earlier job's checkpoints are there.

    After the copy of the checkpoints, this is False until the service hears of them.
    """
    workload = record.workload
    return not describe_first_copy(record) and (workload.ran > 0 or workload.running_since is not None)


def _describe_start(phase: JobPhase) -> str:
    """Return the sentence about a pause of a job whose code has not begun."""
    lost = "nothing is lost" if phase in {"pausing", "paused"} else "a pause loses nothing"
    return f"Its code has not begun yet, so {lost}."


def _is_being_suspended(record: Record) -> bool | None:
    """Return whether the GPU memory of a pausing job is moved to host memory; None if it is not known to have any.

    The intent alone is no promise: an attempt for a job without GPU memory fails.
    """
    suspension = record.detail.suspension
    if suspension is None:
        return False
    return None if suspension.memory is None else suspension.memory != 0


def _way_of(record: Record, phase: JobPhase, suspendable: bool) -> PauseWay:
    """Return how a job is, was or would be paused."""
    if has_suspended_run(record) or (phase in {"running", "pausing"} and suspendable):
        return "suspended"
    return "restart" if record.workload.checkpointed_at is None else "checkpoint"


def _describe(way: PauseWay, phase: JobPhase, saved_at: Instant | None) -> str:
    """Return the sentence about a pause in this way, of a job in this phase."""
    if way == "suspended":
        match phase:
            case "paused":
                return "Nothing is lost: its GPU memory is kept in host memory, and it goes on where it was."
            case "pausing":
                return "Its GPU memory is being moved to host memory, so that nothing is lost."
            case "starting":
                return "Its GPU memory is coming back from host memory, and it goes on where it was."
            case _:
                return f"{_SUSPENDED_FOR_OTHERS} {_IF_IT_MUST_LEAVE} {_describe_new_run(phase, saved_at)}"
    begin = "It" if phase in {"pausing", "paused"} else "If it is paused, it"
    return f"{begin} {_describe_new_run(phase, saved_at if way == 'checkpoint' else None)}"


def _describe_new_run(phase: JobPhase, saved_at: Instant | None) -> str:
    """Return what a new run of a job goes on from, to complete a sentence; `saved_at` None = it saved no checkpoint."""
    if saved_at is None:
        why = "since it has saved no checkpoint" if phase == "paused" else "unless it saves its state when told to stop"
        return f"starts again from the beginning, {why}."
    time = datetime.fromtimestamp(saved_at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"continues from its checkpoint of {time}, or from a later one."


def describe_first_copy(record: Record) -> str:
    """Return a sentence about the checkpoints that a job copies, when it runs, before its first cell.

    "" if it continues from no job, or the service has heard of its checkpoints.
    """
    earlier = record.detail.continue_from
    if not earlier or record.workload.checkpointed_at is not None:
        return ""
    return f"Before its first cell, it copies the checkpoints of {earlier}."

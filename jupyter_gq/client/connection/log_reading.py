"""Reading whole logs from the service, part by part, so that nobody holds a whole log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gq.client.models import JobLog, TaskLog

    from .http import ServiceClient


def choose_logs(log: JobLog, task: int | None) -> list[TaskLog]:
    """Return the logs of all tasks, or of one.

    A task without a log gets one of a byte: the service, asked for that byte, says if there is no such task.
    """
    from jupyter_gq.client.models import TaskLog  # the start of a Jupyter server imports no models

    if task is None:
        return list(log.tasks)
    return [each for each in log.tasks if each.task == task] or [TaskLog(task=task, start=0, end=1)]


async def read_logs(client: ServiceClient, job: str, logs: Sequence[TaskLog]) -> AsyncIterator[bytes]:
    """Yield the kept bytes of these logs in order, each as far as it was written when the service described it.

    A headline names the task if there are several logs.
    """
    for log in logs:
        if len(logs) > 1:
            yield f"== task {log.task} ==\n".encode()
        start = log.start
        while start < log.end and (part := await client.log_part(job, log.task, start)):
            yield part[: log.end - start]
            start += len(part)

"""Requests that wait for the device visibility check of a container.

A runner asks before it runs a job, and a server before it starts a kernel. The backend is asked again whenever
something may have changed, and at least once a second.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gq.client.models import TaskDeviceCheck
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.signal import Signal
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.workload import Workload

#: Longest time in seconds between two questions to the backend: a check can also become impossible by time alone.
CHECK_INTERVAL = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceChecks:
    """The requests for device checks of tasks in pods."""

    context: Context
    #: Fired when something may have changed.
    changed: Signal

    async def wait(self, present: Callable[[], Workload], task: int, seconds: float) -> TaskDeviceCheck:
        """Return the device check of task number `task`, once it is settled or after `seconds` seconds.

        `present` returns the workload as it is now, and raises an error if it does not run. Raises `NotFound` if
        workloads of that kind do not run in pods.
        """
        elapsed = self.context.clock.elapsed
        until = elapsed() + seconds
        while True:
            workload = present()
            lookup = self.context.backend_of(workload.kind).capabilities.pod_lookup
            if lookup is None:
                raise NotFound(
                    "Nothing of this kind runs in pods here, so no agent checks which devices a container can open."
                )
            check = lookup.attestation(workload.id, workload.run, task)
            left = until - elapsed()
            if check.is_settled or left <= 0:
                return TaskDeviceCheck(result=check.result.value, required=check.required, sentence=check.sentence)
            await self.changed.wait(min(left, CHECK_INTERVAL))

"""Tells the service what the kernels of this server do, and the Hub that the server is in use.

An open page, a connection and polling are no activity. A kernel that runs code is, however silent it is.
"""

import asyncio
from collections.abc import MutableMapping
from datetime import UTC, datetime

from jupyter_gq.client.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ActivityReport, KernelActivity, ServiceEvent

from .clock import now
from .watch import KernelState, KernelWatch

#: jupyter_server takes the latest of all settings that end in `_last_activity` and posts it to the Hub.
SETTING = "jupyter_gq_last_activity"
#: News this many seconds old still counts as use: output of a job that this server sent, or work on its share.
RECENT = 60.0


class ActivityReporter:
    """Every `interval` seconds: the state of every kernel to the service, a tick for the Hub when there is use.

    A kernel that is busy for more than `busy_limit` seconds without a break stops ticking for the Hub, so that a cell
    that hangs does not hold the server for ever; the service is still told that it is busy, and judges by itself.
    """

    def __init__(
        self,
        client: ServiceClient,
        server: str,
        kernels: KernelWatch,
        settings: MutableMapping[str, object],
    ) -> None:
        self._client, self._server, self._kernels = client, server, kernels
        self._settings, self._log = settings, kernels.log
        self.interval, self.busy_limit = 5.0, 12 * 3600.0
        self._busy_since: dict[str, float] = {}
        self._used_at: float | None = None
        self._refused: str | None = None

    async def run(self) -> None:
        """Report for as long as this server runs. Ends by cancellation only."""
        while True:
            try:
                await self.report()
            except Exception:  # noqa: BLE001 - the last guard: no report means unknown, which is never idle
                self._log.exception("the activity of the kernels could not be reported")
            await asyncio.sleep(self.interval)

    async def report(self) -> None:
        """One report and, where due, one tick. Failures to reach the service are left to the next report."""
        at, states = now(), self._kernels.activity()
        self.tick(at, states)
        kernels = [
            KernelActivity(id=kernel.id, name=kernel.name, busy=kernel.busy, last_active=kernel.last_active)
            for kernel in states
        ]
        try:
            await self._client.report_activity(self._server, ActivityReport(at=at, kernels=kernels))
        except ServiceUnavailable:
            return  # the stream of events says so, once
        except ServiceError as error:
            if error.problem.code != self._refused:
                self._log.info("activity was not taken: %s", error.problem.message)
            self._refused = error.problem.code
        else:
            self._refused = None

    def notice(self, event: ServiceEvent) -> None:
        """News of the service that means that this server's share or one of its jobs is at work."""
        data = event.data
        working = event.kind == "notebook" and data.get("server") == self._server and (data.get("utilisation") or 0) > 0
        if working or event.kind == "output":
            self._used_at = now()

    def tick(self, at: float, kernels: list[KernelState]) -> None:
        """Move the time that jupyter_server reports to the Hub, when there was use."""
        busy = {kernel.id for kernel in kernels if kernel.busy}
        self._busy_since = {kernel: self._busy_since.get(kernel, at) for kernel in busy}
        working = any(at - since <= self.busy_limit for since in self._busy_since.values())
        ends = [kernel.last_active for kernel in kernels]
        if working or (self._used_at is not None and at - self._used_at <= RECENT):
            ends.append(at)
        before = self._settings.get(SETTING)
        if ends and (not isinstance(before, datetime) or max(ends) > before.timestamp()):
            self._settings[SETTING] = datetime.fromtimestamp(max(ends), UTC)

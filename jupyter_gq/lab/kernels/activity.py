"""Reports of the kernels' activity to the service, and of the server's use to the Hub.

An open page, a connection and polling are no activity. A kernel that runs code is active, even if it is silent.
"""

import asyncio
from collections.abc import MutableMapping
from datetime import UTC, datetime

from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.models import ActivityReport, KernelActivity, ServiceEvent
from jupyter_gq.lab.clock import monotonic, now

from .share import ShareNotice
from .watch import KernelState, KernelWatch

#: Name of a setting: jupyter_server posts the latest of all settings that end in `_last_activity` to the Hub.
LAST_ACTIVITY_SETTING = "jupyter_gq_last_activity"
#: Seconds for which an event counts as use of the server: output of a job that it sent, or work on its share.
RECENT_SECONDS = 60.0


class ActivityReporter:
    """The periodic report of all kernels to the service, and of the server's last activity to the Hub.

    A kernel that is busy for more than `busy_limit` seconds without a break does not count as activity for the Hub, so
    that a cell that hangs does not keep the server for ever. The service still learns that the kernel is busy.
    """

    def __init__(
        self,
        client: ServiceClient,
        server: str,
        kernels: KernelWatch,
        settings: MutableMapping[str, object],
        share: ShareNotice,
    ) -> None:
        self._client, self._server, self._kernels, self._share = client, server, kernels, share
        self._settings, self._log = settings, kernels.log
        self.interval, self.busy_limit = 5.0, 12 * 3600.0
        self._busy_since: dict[str, float] = {}
        self._used_at: float | None = None
        self._refused: str | None = None

    async def run(self) -> None:
        """Report every `interval` seconds until cancelled; log errors and go on."""
        while True:
            try:
                await self.report()
            except Exception:  # noqa: BLE001 - the last guard; without reports the state is unknown, which is never idle
                self._log.exception("the activity of the kernels could not be reported")
            await asyncio.sleep(self.interval)

    async def report(self) -> None:
        """Send one report of all kernels to the service, and update the last activity for the Hub.

        The report says whether a lent share is wanted back.

        Raises no error if the service is down or refuses; a refusal is logged once.
        """
        at, states = now(), self._kernels.get_activity()
        self.update_last_activity(at, states)
        kernels = [
            KernelActivity(id=kernel.id, name=kernel.name, busy=kernel.busy, last_active=kernel.last_active)
            for kernel in states
        ]
        try:
            wanted = self._share.is_wanted(states, monotonic())
            await self._client.report_activity(self._server, ActivityReport(at=at, kernels=kernels, wanted=wanted))
        except ServiceUnavailable:
            return  # the event stream logs the loss of the connection once
        except ServiceError as error:
            if error.problem.code != self._refused:
                self._log.info("the service refused the activity report: %s", error.problem.message)
            self._refused = error.problem.code
        else:
            self._refused = None

    def note_event(self, event: ServiceEvent) -> None:
        """Note the present time as use of this server if the event shows work on its share or output of its jobs."""
        data = event.data
        working = event.kind == "notebook" and data.get("server") == self._server and (data.get("utilisation") or 0) > 0
        if working or event.kind == "output":
            self._used_at = now()

    def update_last_activity(self, at: float, kernels: list[KernelState]) -> None:
        """Set the setting `LAST_ACTIVITY_SETTING` to the time of the newest use of this server; never set it back.

        A busy kernel, up to `busy_limit`, and use that an event of the service has shown recently count as use at `at`.
        """
        busy = {kernel.id for kernel in kernels if kernel.busy}
        self._busy_since = {kernel: self._busy_since.get(kernel, at) for kernel in busy}
        working = any(at - since <= self.busy_limit for since in self._busy_since.values())
        ends = [kernel.last_active for kernel in kernels]
        if working or (self._used_at is not None and at - self._used_at <= RECENT_SECONDS):
            ends.append(at)
        before = self._settings.get(LAST_ACTIVITY_SETTING)
        if ends and (not isinstance(before, datetime) or max(ends) > before.timestamp()):
            self._settings[LAST_ACTIVITY_SETTING] = datetime.fromtimestamp(max(ends), UTC)

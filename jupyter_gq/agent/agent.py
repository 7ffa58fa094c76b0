"""The loop of the agent: observe the node, report to the service, follow the orders in its answer.

Rules
-----
- Survive outages: if the service cannot be reached, the agent keeps observing and reports again after a backoff.
- Follow orders at once: the next report follows new orders immediately; otherwise one goes out in each interval.
- No memory: an agent that starts first asks for its orders. Nothing is kept from an earlier process.
"""

import asyncio
import logging

from jupyter_gq.client.agents import AgentCommand, AgentOrders, AgentReport
from jupyter_gq.client.problems import ServiceError

from .backoff import ExponentialBackoff
from .clock import monotonic
from .observer import NodeObserver
from .service_connection import ServiceConnection, TokenMissing

log = logging.getLogger(__name__)

#: Shortest interval between two reports in seconds, whatever the service asks for.
MIN_INTERVAL = 0.2
#: Longest interval in seconds: the service answers within it, and takes an agent that is silent for longer as gone.
MAX_INTERVAL = 25.0


class Agent:
    """The agent of one node, which reports until it is cancelled."""

    def __init__(
        self, observer: NodeObserver, service: ServiceConnection, backoff: ExponentialBackoff, *, report_every: float
    ) -> None:
        """Create an agent without orders; it reports every `report_every` seconds, or more often on request."""
        self._observer, self._service, self._backoff = observer, service, backoff
        self._report_every = report_every
        #: Newest orders of the service, kept while the service is down; None before its first answer.
        self._orders: AgentOrders | None = None
        #: The error that was logged last; None while reports are accepted.
        self._logged_error: str | None = None
        #: State of the driver, and each missing ability, as they were logged last.
        self._logged_states: dict[str, str] = {}
        #: Ids of the unsupported commands that were logged.
        self._logged_commands: set[str] = set()

    async def run(self) -> None:
        """Observe the node and report to the service in a loop until cancelled.

        An error is logged and followed by a pause.
        """
        while True:
            try:
                pause = await self._step()
            except Exception:  # the last guard of the loop
                log.exception("the node could not be observed; the agent tries again")
                pause = self._backoff.next()
            await asyncio.sleep(pause)

    async def _step(self) -> float:
        """Observe the node, report once, and store the orders in the answer; return the seconds to wait afterwards.

        New orders make the next report go out after `MIN_INTERVAL`; otherwise the rest of the interval is returned. If
        the service does not accept the report, the error is logged, the earlier orders stay, and the backoff is
        returned.
        """
        watch = [] if self._orders is None else self._orders.watch
        report = await self._observer.observe(watch)
        self._log_changes(report)
        interval = self._interval()
        # Before the first orders, the agent needs the answer at once: it does not know yet what to watch.
        wait = 0 if self._orders is None else int(interval)
        began = monotonic()
        try:
            orders = await self._service.report(report, wait)
        except (ServiceError, TokenMissing) as error:
            return self._record_failure(error)
        self._record_success()
        before, self._orders = self._orders, orders
        self._log_unsupported(orders.commands)
        if before is None or before != orders:
            return MIN_INTERVAL
        # The service waits whole seconds, and not at all if it has just started.
        return max(MIN_INTERVAL, began + interval - monotonic())

    def _log_changes(self, report: AgentReport) -> None:
        """Log each change of the driver's state and of what the node lacks: an administrator reads this log first."""
        states = {"driver": f"{report.probe}: {report.detail}", **report.missing}
        for name in sorted({*states, *self._logged_states}):
            if states.get(name) != self._logged_states.get(name):
                log.info("%s: %s", name, states.get(name, "nothing is missing any more"))
        self._logged_states = states

    def _interval(self) -> float:
        """Return the seconds between two reports: what the service asks for, within the limits of this agent."""
        asked = self._report_every if self._orders is None else self._orders.report_every
        return max(MIN_INTERVAL, min(self._report_every, asked))

    def _log_unsupported(self, commands: list[AgentCommand]) -> None:
        """Log each command that the previous call did not have: this agent can carry out none of them."""
        for command in commands:
            if command.id not in self._logged_commands:
                log.warning("cannot %s pod %s: this version of the agent is not able to", command.kind, command.pod_uid)
        self._logged_commands = {command.id for command in commands}

    def _record_failure(self, error: ServiceError | TokenMissing) -> float:
        """Log an error that differs from the last one; return the seconds to wait before the next report."""
        if self._logged_error != str(error):
            log.warning("the service did not accept the report; the agent tries again. %s", error)
        self._logged_error = str(error)
        return self._backoff.next()

    def _record_success(self) -> None:
        """Log that the service accepts reports again, and reset the backoff."""
        if self._logged_error is not None:
            log.info("the service at %s accepts reports again", self._service.url)
        self._logged_error = None
        self._backoff.reset()

"""The loop of the agent: observe the node, report to the service, follow the orders in its answer.

Rules
-----
- Survive outages: if the service cannot be reached, the agent keeps observing and reports again after a backoff.
- Follow orders at once: the next report follows new orders immediately; otherwise one goes out in each interval.
- Once only: a command is carried out once, by its id, and not at all if its answer comes too late.
- Little memory: an agent that starts first asks for its orders. Only the journal of suspensions outlives it.
"""

import asyncio
import logging

from jupyter_gq import __version__
from jupyter_gq.client.agents import AgentCommand, AgentOrders, AgentReport
from jupyter_gq.client.problems import ServiceError

from .backoff import ExponentialBackoff
from .clock import monotonic
from .observer import NodeObserver
from .service_connection import ServiceConnection, TokenMissing
from .shares import PodShares
from .signals import PodSignals

log = logging.getLogger(__name__)

#: Shortest interval between two reports in seconds, whatever the service asks for.
MIN_INTERVAL = 0.2
#: Interval in seconds while a share is suspended or comes back, because somebody waits for the news.
_MOVING_INTERVAL = 0.5
#: Longest interval in seconds: the service answers within it, and takes an agent that is silent for longer as gone.
MAX_INTERVAL = 25.0


class Agent:
    """The agent of one node, which reports until it is cancelled."""

    def __init__(
        self,
        observer: NodeObserver,
        signals: PodSignals,
        service: ServiceConnection,
        backoff: ExponentialBackoff,
        *,
        report_every: float,
        shares: PodShares | None = None,
    ) -> None:
        """Create an agent without orders; it reports every `report_every` seconds, or more often on request.

        `shares` suspends the shares of pods; None = nothing is suspended.
        """
        self._observer, self._signals, self._service, self._backoff = observer, signals, service, backoff
        self._report_every, self._shares = report_every, shares
        #: Newest orders of the service, kept while the service is down; None before its first answer.
        self._orders: AgentOrders | None = None
        #: The error that was logged last; None while reports are accepted.
        self._logged_error: str | None = None
        #: State of the driver, and each missing ability, as they were logged last.
        self._logged_states: dict[str, str] = {}
        #: Ids of the commands in the last orders that were carried out, or cannot be.
        self._handled: set[str] = set()
        #: Result of each command that no accepted report has told yet: "" = carried out, else why not.
        self._results: dict[str, str] = {}

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
        if self._shares is not None:
            self._shares.recover()  # behind the observation, which finds out whether another agent does so
            report = self._shares.add_suspensions(report)
        self._log_changes(report)
        told = dict(self._results)
        report = report.model_copy(
            update={
                "done": [id for id, problem in told.items() if not problem],
                "failed": {id: problem for id, problem in told.items() if problem},
                "release": __version__,
            }
        )
        interval = self._interval()
        # Before the first orders, the agent needs the answer at once: it does not know yet what to watch.
        wait = 0 if self._orders is None else int(interval)
        began = monotonic()
        try:
            orders = await self._service.report(report, wait)
        except (ServiceError, TokenMissing) as error:
            return self._record_failure(error)
        self._record_success()
        self._results = {id: problem for id, problem in self._results.items() if id not in told}
        before, self._orders = self._orders, orders
        self._carry_out(orders.commands, monotonic() - began)
        if self._shares is not None:
            self._shares.follow(orders, monotonic() - began)
        if before is None or before != orders or self._results:
            return MIN_INTERVAL
        # The service waits whole seconds, and not at all if it has just started.
        return max(MIN_INTERVAL, began + min(interval, self._interval()) - monotonic())

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
        if self._shares is not None and self._shares.are_moving:
            asked = min(asked, _MOVING_INTERVAL)
        return max(MIN_INTERVAL, min(self._report_every, asked))

    def _carry_out(self, commands: list[AgentCommand], age: float) -> None:
        """Carry out each command that has not been handled; the orders are `age` seconds old at most."""
        self._handled &= {command.id for command in commands}
        for command in commands:
            if command.id in self._handled:
                continue
            if command.valid_for is not None and age > command.valid_for:
                log.warning("the order to %s a program of pod %s came too late", command.kind, command.pod_uid)
                continue
            self._handled.add(command.id)
            self._results[command.id] = self._send_signal(command)

    def _send_signal(self, command: AgentCommand) -> str:
        """Send the signal of a command and log it; return "" if it was sent, else why not."""
        problem = self._signals.send(command)
        pid = None if command.process is None else command.process.pid
        log.warning("%s process %s of pod %s: %s", command.kind, pid, command.pod_uid, problem or "done")
        return problem

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

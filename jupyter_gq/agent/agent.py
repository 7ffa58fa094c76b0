"""The agent's loop: look, report, take the answer's orders, again.

Rules
-----
1. A service that is away ends nothing: the agent waits, longer each time, and goes on looking.
2. New orders are followed at once; without them a report goes out every `report_every` seconds.
3. Nothing is kept between two runs of the agent: after its start it asks for its orders first.
"""

import asyncio
import logging

from jupyter_gq.client.agents import AgentCommand, AgentOrders, AgentReport
from jupyter_gq.client.problems import ServiceError

from .backoff import Backoff
from .clock import monotonic
from .link import ServiceLink, TokenMissing
from .patience import PatientLook

log = logging.getLogger(__name__)

#: Seconds between two reports at the least, whatever the service answers.
LEAST_PAUSE = 0.2
#: At the most: the service waits no longer, and an agent that is silent for much longer counts as gone.
MOST_PAUSE = 25.0


class Agent:
    """Runs until it is cancelled."""

    def __init__(self, looks: PatientLook, link: ServiceLink, backoff: Backoff, *, report_every: float) -> None:
        """`report_every` is in seconds; the service may ask for more often, not for less."""
        self._looks, self._link, self._backoff = looks, link, backoff
        self._most = report_every
        #: What the service said last, also while it is away; None: it has not been heard since the start.
        self._orders: AgentOrders | None = None
        self._away: str | None = None
        #: What was last logged of the driver, and of what is missing.
        self._states: dict[str, str] = {}
        #: Ids of commands that were answered by what is missing.
        self._declined: set[str] = set()

    async def run(self) -> None:
        """Report for ever."""
        while True:
            try:
                pause = await self._step()
            except Exception:  # the last guard of the loop
                log.exception("a look failed; it is tried again")
                pause = self._backoff.next()
            await asyncio.sleep(pause)

    async def _step(self) -> float:
        """Observe and report once; return the seconds to wait before the next report."""
        watch = [] if self._orders is None else self._orders.watch
        report = await self._looks.look(watch)
        self._note(report)
        every = self._every()
        # Not heard yet: what is to be watched is wanted at once.
        wait = 0 if self._orders is None else int(every)
        begun = monotonic()
        try:
            orders = await self._link.report(report, wait)
        except (ServiceError, TokenMissing) as error:
            return self._failed(error)
        self._heard()
        before, self._orders = self._orders, orders
        self._decline(orders.commands)
        if before is None or before != orders:
            return LEAST_PAUSE
        # The service waits whole seconds, or not at all when it has just begun.
        return max(LEAST_PAUSE, begun + every - monotonic())

    def _note(self, report: AgentReport) -> None:
        """Log what has changed of the node's own state: who looks at a node looks here first."""
        states = {"driver": f"{report.probe}: {report.detail}", **report.missing}
        for name in sorted({*states, *self._states}):
            if states.get(name) != self._states.get(name):
                log.info("%s: %s", name, states.get(name, "nothing is missing any more"))
        self._states = states

    def _every(self) -> float:
        asked = self._most if self._orders is None else self._orders.report_every
        return max(LEAST_PAUSE, min(self._most, asked))

    def _decline(self, commands: list[AgentCommand]) -> None:
        """Commands that this agent cannot carry out are logged once; each report says why, the next one at once."""
        for command in commands:
            if command.id in self._declined:
                continue
            log.warning("cannot %s pod %s: this version of the agent is not able to", command.kind, command.pod_uid)
        self._declined = {command.id for command in commands}

    def _failed(self, error: ServiceError | TokenMissing) -> float:
        pause = self._backoff.next()
        if self._away != str(error):
            log.warning("the report was not taken; it is tried again and again. %s", error)
        self._away = str(error)
        return pause

    def _heard(self) -> None:
        if self._away is not None:
            log.info("the service at %s takes reports again", self._link.url)
        self._away = None
        self._backoff.reset()

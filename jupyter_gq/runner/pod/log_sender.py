"""The upload of the log, part by part, while the task runs and at its end."""

import logging
from dataclasses import dataclass, field

from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.mask import Mask

from .log_tail import LogTail
from .service import PodService, RequestRefused, ServiceUnreachable
from .unsent_log import PART

log = logging.getLogger(__name__)

#: Seconds between two uploads of a log that grows slowly, and after a failure.
LOG_INTERVAL = 30.0
#: Seconds that one request may take, and all parts that are sent together.
LOG_TIMEOUT = 5.0
_SHORTEST_TIMEOUT = 0.5


@dataclass(kw_only=True, slots=True)
class LogSender:
    """The upload of the log. A service that knows no parts gets the end of the log instead."""

    service: PodService
    #: Token of the task; never logged.
    token: str = field(repr=False)
    tail: LogTail
    #: Hides the values of the job's secrets.
    mask: Mask = field(default_factory=Mask, repr=False)
    _due: float = 0.0
    #: Until when nothing is sent, after a failure.
    _paused: float = 0.0
    #: The service is older and does not know parts.
    _end_only: bool = False
    #: Number of bytes that were printed when the end was sent.
    _sent: int = 0

    def send_if_due(self) -> None:
        """Send the log if much of it waits or the interval is over; a failure is tried again at the next interval."""
        now = monotonic()
        waits = not self._end_only and len(self.tail.unsent) >= PART
        if now >= self._paused and (now >= self._due or waits):
            self._send(now + LOG_TIMEOUT)

    def send_last(self, until: float) -> bool:
        """Send the rest of the log until that time; return False if the service may take what is left later.

        A refusal of the service is logged and returns True.
        """
        return self._send(until, last=True)

    def _send(self, until: float, *, last: bool = False) -> bool:
        """Send what waits, or the end of the log; return False if the service could not be reached or time is over."""
        self._due = monotonic() + LOG_INTERVAL
        try:
            return self._send_end(until) if self._end_only else self._send_parts(until, last)
        except ServiceUnreachable:
            self._paused = self._due
            return False
        except RequestRefused as error:
            if error.status == 422 and not self._end_only:  # an older service without the parameter `start`
                self._end_only = True
                return self._send(until, last=last)
            log.info("The service refuses this log: %s", error)
            self._paused = self._due
            return True

    def _send_parts(self, until: float, last: bool) -> bool:
        """Send the parts that wait, until that time; return whether all are sent."""
        unsent = self.tail.unsent
        while part := unsent.take(self.mask, last=last):
            self.service.append_log(self.token, unsent.start, part, _limit_timeout(until))
            unsent.confirm()
            if monotonic() >= until:
                return False
        return True

    def _send_end(self, until: float) -> bool:
        """Send the end of the log if the log has grown; return True."""
        size = self.tail.size
        if size != self._sent:
            self.service.put_log(self.token, self.mask.hide_bytes(self.tail.text()), _limit_timeout(until))
            self._sent = size
        return True


def _limit_timeout(until: float) -> float:
    """Return the seconds that a request may take which should be over at that time."""
    return max(_SHORTEST_TIMEOUT, min(LOG_TIMEOUT, until - monotonic()))

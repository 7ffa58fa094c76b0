"""The file that tells the code of a job in a pod which tasks the job has now. Standard library only."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.files.folder import write_whole

from .service import PodService, RequestRefused, ServiceUnreachable

#: Seconds between two requests for the size.
_INTERVAL = 3.0
#: Seconds that a request may take while the task runs, and after it was told to stop.
_TIMEOUT, _SHORT_TIMEOUT = 5.0, 1.0


@dataclass(kw_only=True, slots=True)
class SizeFile:
    """The size of a job whose number of tasks changes, asked of the service again and again."""

    service: PodService
    #: Token of the task; never logged.
    token: str = field(repr=False)
    path: Path
    _due: float = 0.0
    _was_stopped: bool = False
    #: Whether the size was read after the task was told to stop, so that it is not asked for any more.
    _is_last: bool = False

    def fetch(self, timeout: float = _TIMEOUT) -> None:
        """Write the present size into the file; raise `RequestRefused`, `ServiceUnreachable` or `OSError`."""
        write_whole(self.path, self.service.fetch_size(self.token, timeout))

    def poll(self, *, is_stopped: bool) -> None:
        """Write the present size if it is due, and at once when the task was told to stop, for the last time.

        A task that was told to leave then finds that it is not among the tasks any more. A failure changes nothing.
        """
        stops_now = is_stopped and not self._was_stopped
        if self._is_last or (monotonic() < self._due and not stops_now):
            return
        self._was_stopped = is_stopped
        with suppress(RequestRefused, ServiceUnreachable, OSError):  # the next answer has all changes
            self.fetch(_SHORT_TIMEOUT if is_stopped else _TIMEOUT)
            self._is_last = is_stopped
        self._due = monotonic() + _INTERVAL

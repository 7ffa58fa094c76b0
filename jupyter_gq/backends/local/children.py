"""The child processes of the service that are tasks, and how they ended."""

from jupyter_gq.backends.processes import reap


class Children:
    """The child processes that have not been reaped, and the exit codes of those that have."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        #: Exit codes of the processes that have ended, by id.
        self.exit_codes: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """Add a child that was started; an ended one may have had the same id."""
        self._running.add(pid)
        self.exit_codes.pop(pid, None)

    def reap(self) -> None:
        """Reap ended children and keep their exit codes."""
        codes = reap(self._running)
        self._running -= codes.keys()
        self.exit_codes |= codes

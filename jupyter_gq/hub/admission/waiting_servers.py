"""The count of this Hub's servers that wait for a share: each occupies one of the Hub's concurrent starts.

See docs/decisions/0052-limit-the-servers-that-wait.md.
"""


class WaitingServers:
    """The servers that wait now. A Hub that restarts begins with none, because the waits end with its process."""

    def __init__(self, settling_seconds: float = 5.0) -> None:
        #: Seconds after which a waiting server counts: free shares are given out sooner, even to many servers at once.
        self.settling_seconds = settling_seconds
        self._waiting: set[object] = set()

    def join(self, server: object, most: int) -> bool:
        """Count a server as waiting and return True; return False if `most` others wait already (0 = any number).

        A server that waits already keeps its place.
        """
        if server not in self._waiting and most and len(self._waiting) >= most:
            return False
        self._waiting.add(server)
        return True

    def leave(self, server: object) -> None:
        """Remove a server; do nothing if it does not wait."""
        self._waiting.discard(server)

    def __len__(self) -> int:
        return len(self._waiting)

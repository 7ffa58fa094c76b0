"""The servers of this Hub that wait in line, counted: each holds one of the starts that a Hub does at a time."""


class Line:
    """Who waits now. What the Hub's process forgets with its end has ended with it."""

    def __init__(self, settled: float = 5.0) -> None:
        #: Seconds after which a server counts: shares that are free are given out sooner, also to many at once.
        self.settled = settled
        self._waiting: set[object] = set()

    def join(self, who: object, most: int) -> bool:
        """Whether it may wait, with at most `most` at one time (0 = any number); asked again it keeps its place."""
        if who not in self._waiting and most and len(self._waiting) >= most:
            return False
        self._waiting.add(who)
        return True

    def leave(self, who: object) -> None:
        """It does not wait any more; no error if it never did."""
        self._waiting.discard(who)

    def __len__(self) -> int:
        return len(self._waiting)

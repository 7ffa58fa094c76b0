"""The pace of questions about a job that somebody follows: in a kernel, under a cell, or on the command line.

See docs/decisions/0112-follow-a-job-by-asking.md.
"""

from __future__ import annotations

#: Seconds between two questions, and the longest pause while nobody answers.
INTERVAL, LONGEST_PAUSE = 1.0, 10.0


class Pace:
    """The pauses after questions: always the same after an answer, and longer each time while nobody answers."""

    def __init__(self, every: float) -> None:
        self._every = self._pause = every

    def next_pause(self, *, answered: bool) -> float:
        """Return the seconds until the next question; `answered` says whether somebody has answered the last one."""
        self._pause = self._every if answered else min(LONGEST_PAUSE, 2 * self._pause)
        return self._pause

"""Shares whose programs hold, or lately held, more memory than the limit, and the sentences about them."""

from dataclasses import dataclass

from jupyter_gq.devices.memory_watchdog import Act, Excess
from jupyter_gq.domain.amount import Instant, MiB, format_memory


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryExcess:
    """The excess of one share, what was done about it, and what follows."""

    #: The excess at the last sample that showed one.
    excess: Excess
    #: The last act.
    done: Act
    #: The next act, and when it is due; None = the share is within its limit again, or it is unknown whether it is.
    next: Act | None = None
    next_at: Instant | None = None
    #: Time of the last sample that showed the excess.
    seen_at: Instant

    @property
    def acted(self) -> bool:
        """Whether a program was interrupted or ended."""
        return self.done is not Act.WARN

    def describe(self, now: Instant) -> str:
        """Return sentences on how much is held and allowed, what was done, and what happens next and when."""
        if self.next is None or self.next_at is None:
            return self.describe_past()
        left = max(0, round(self.next_at - now))
        return f"{self._describe_amounts()} {self._describe_steps(left)}"

    def describe_past(self) -> str:
        """Return a sentence on what was done to which program and why, for a share that is within its limit again."""
        excess = self.excess
        return (
            f"The {self._program()} was {_DONE[self.done]}, because the share held "
            f"{format_memory(excess.used)} of GPU memory, {format_memory(excess.over)} more than its limit of "
            f"{format_memory(excess.limit)}."
        )

    def _describe_amounts(self) -> str:
        excess = self.excess
        return (
            f"The programs of this share hold {format_memory(excess.used)} of GPU memory, "
            f"{format_memory(excess.over)} more than the limit of {format_memory(excess.limit)}."
        )

    def _describe_steps(self, left: int) -> str:
        """Return the sentence on what was done and what follows in `left` seconds."""
        assert self.next is not None
        if self.done is Act.WARN:
            return f"Free some memory: in about {left} s, the {self._program()} is {_DONE[self.next]}."
        program = self._program()
        return f"The {program} was {_DONE[self.done]}; in about {left} s it is {_DONE[self.next]}."

    def _program(self) -> str:
        excess = self.excess
        return f"largest program (process {excess.largest.pid}, {format_memory(MiB(excess.largest_used))})"


_DONE = {
    Act.WARN: "warned about",
    Act.INTERRUPT: "interrupted",
    Act.TERMINATE: "told to end",
    Act.KILL: "killed",
}

"""The end of a process for want of memory, in the words in which its owner is told.

See docs/decisions/0230-tell-who-was-short-of-memory.md.
"""

from dataclasses import dataclass

from .amount import MiB, format_memory


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryKill:
    """A process that Linux killed to get memory back."""

    #: The limit that its job or server went beyond; None if it kept within its limit, or has none.
    limit: MiB | None

    def explain(self, who: str) -> str:
        """Return the cause as a clause: "the job used more than its memory of 16 GiB"."""
        if self.limit is None:
            return f"the machine had no memory left for {who}"
        return f"{who} used more than its memory of {format_memory(self.limit)}"

    @property
    def remedy(self) -> str:
        """A sentence on what the owner can do."""
        if self.limit is None:
            return "Use less memory, or ask for as much as is needed, so that so much is kept free."
        return "Use less memory, or ask for more."

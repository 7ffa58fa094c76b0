"""What came of one case."""

from dataclasses import dataclass, field
from typing import Any

#: One case as the file has it.
Case = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that is other than expected: a task's status, a queue's share, an answer."""

    what: str
    expected: str
    ours: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One case, and how our decision differs from the expected one (not at all: it agrees)."""

    file: str
    tier: int
    id: str
    differences: tuple[Difference, ...] = ()
    #: Tasks with the expected status on another node: does not count against agreement.
    elsewhere: int = 0
    #: The case is about a step that our cycle does not have: agreement only says that nothing was to be done.
    no_step: bool = False
    #: Names of the reasons that fit, the most telling first.
    reasons: tuple[str, ...] = field(default=())

    @property
    def agrees(self) -> bool:
        """Everything is as expected."""
        return not self.differences


class Untranslatable(Exception):
    """The case contradicts itself, or says something that our snapshot has no place for."""

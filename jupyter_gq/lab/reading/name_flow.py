"""The effects that parts of a program have on names, on all paths through them at once. Pure.

Rules
-----
- Effect: what a part does to a name, as a set of the possibilities below. A name is surely bound if no path leaves or
  deletes it, and perhaps bound if some path binds it.
- Sequence: a later effect replaces an earlier one, which counts on the paths where the later part leaves the name.
- Branches: the possibilities of all, without those of branches that end with `raise`, `break` and the like.
- Interrupted: a part that an error or `break` may end at any point has done anything that it does on the way, or
  nothing.
- Size: a part holds only the names that it touches, so branches cost no more than what is in them.

See docs/decisions/0473-follow-names-on-all-paths.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

#: The possibilities: the name is assigned or defined, imported, deleted, or left as it was before.
BINDS: Final = 1
IMPORTS: Final = 2
DELETES: Final = 4
LEAVES: Final = 8
#: Either way in which a name is bound.
BOUND: Final = BINDS | IMPORTS
#: A name and the number of its scope.
Name = tuple[int, str]


@dataclass(kw_only=True, slots=True)
class Part:
    """A part of a program, as far as it was read."""

    #: Effects on the names that the part touches, if it runs to its end.
    effects: dict[Name, int] = field(default_factory=dict)
    #: All that is done to a name on the way, without `LEAVES`.
    passed: dict[Name, int] = field(default_factory=dict)
    #: Whether a path leads to its end.
    ends: bool = True
    #: Whether a `break` or `continue` leads out of it.
    jumps: bool = False

    def note(self, name: Name, effect: int) -> None:
        """Add an effect on a name at the end of the part."""
        kept = self.effects.get(name, LEAVES) if effect & LEAVES else 0
        self.effects[name] = effect & ~LEAVES | kept
        self.passed[name] = self.passed.get(name, 0) | effect & ~LEAVES

    def add(self, part: "Part") -> None:
        """Add another part at the end of this one."""
        for name, effect in part.effects.items():
            self.note(name, effect)
        for name, effect in part.passed.items():
            self.passed[name] = self.passed.get(name, 0) | effect
        self.ends = self.ends and part.ends
        self.jumps = self.jumps or part.jumps

    def interrupt(self) -> "Part":
        """Return what has happened if the part was ended at some point, perhaps before its beginning."""
        return Part(effects={name: effect | LEAVES for name, effect in self.passed.items()}, passed=dict(self.passed))

    def doubt(self, effects: int = BOUND | DELETES) -> None:
        """Take into account that what follows may also run after an interruption.

        Any name to which one of `effects` is done on the way may then be as before.
        """
        for name, effect in self.passed.items():
            if effect & effects:
                self.effects[name] = self.effects.get(name, LEAVES) | effect | LEAVES


def join(parts: Iterable[Part]) -> Part:
    """Return the part of which each run is that of one of these parts.

    Parts that do not end count only if none ends. Without any part, the joined one does not end.
    """
    parts = list(parts)
    ending = [part for part in parts if part.ends]
    joined = Part(ends=bool(ending), jumps=any(part.jumps for part in parts))
    counts: dict[Name, int] = {}
    for part in ending or parts:
        for name, effect in part.effects.items():
            joined.effects[name] = joined.effects.get(name, 0) | effect
            counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        if count < len(ending or parts):
            joined.effects[name] |= LEAVES
    for part in parts:
        for name, effect in part.passed.items():
            joined.passed[name] = joined.passed.get(name, 0) | effect
    return joined


def find_effect(parts: Iterable[Part], name: Name) -> int:
    """Return the effect on a name of parts that run one after the other, given in reverse."""
    found = LEAVES
    for part in parts:
        effect = part.effects.get(name, LEAVES)
        found = found & ~LEAVES | effect
        if not effect & LEAVES:
            break
    return found

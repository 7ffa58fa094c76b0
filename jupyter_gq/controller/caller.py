"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """A user as the Hub knows him, at the moment of the request."""

    #: Name of the user.
    user: str
    #: Names of his hub groups.
    groups: frozenset[str] = frozenset()
    #: May see and change everything.
    admin: bool = False

    def may_see(self, owner: str | None) -> bool:
        """Own things and those of nobody in particular; an admin everything."""
        return self.admin or owner is None or owner == self.user

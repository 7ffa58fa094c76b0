"""The user or service behind a request."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The user or service behind a request, as the Hub described it at that moment."""

    #: Name of the user.
    user: str
    #: Names of the user's hub groups.
    groups: frozenset[str] = frozenset()
    #: Whether the caller may see and change the objects of all owners.
    admin: bool = False

    def may_see(self, owner: str | None) -> bool:
        """Return whether the caller may see objects of this owner; everybody may see objects without an owner."""
        return self.admin or owner is None or owner == self.user

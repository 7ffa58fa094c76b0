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
    #: Whether the caller's token is limited to the caller's own objects.
    own_only: bool = False

    def may_see(self, owner: str | None) -> bool:
        """Return True if the caller is an admin or this owner, or if the object has no owner (None)."""
        return self.admin or owner is None or owner == self.user

"""The claim of this database on the objects outside it, which a copy of the database would claim too.

Rules
-----
Claim: the object `owner` in the folder of the database holds the newest claim, a random text. Each sweep makes a new
    one, and the database knows those of a week. So a copy of the database that is older than the last sweep does not
    know the newest one. An earlier one is no other database: a write may arrive late, and the URL may be set back.

Another owner: a service whose database does not know the claim deletes nothing and takes no new contents, since the
    owner would delete them.

Contested: a service that finds another claim in place of its own has a copy beside it that was made a moment ago. Then
    that service writes a claim that neither knows. So both delete nothing, and both go on with new contents. The copy
    may write a new claim over that one at the same moment, so the service writes it as often as it finds another one.

Taken over: an administrator deletes the object `owner`; the next sweep of a service takes the folder.

See docs/decisions/0421-delete-no-object-that-another-database-may-name.md
and docs/decisions/0466-look-at-the-claim-whatever-the-clock-shows.md.
"""

import logging
import secrets

from jupyter_gq.backends.contents import Contents
from jupyter_gq.controller.context import Context
from jupyter_gq.store.outside import CLAIMS, OWNER

log = logging.getLogger(__name__)

_CONTESTED = "contested"
#: Claims that the database knows: those of a week, one an hour.
_MOST_CLAIMS = 168


class ContentsOwner:
    """The claim of the database of this service on its objects."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: This service has renewed a claim of its database since it started.
        self._has_owned = False
        #: What administrators were told last.
        self._told = ""

    def confirm(self, contents: Contents) -> bool:
        """Renew the claim of this database and return True, or return False if another database claims the objects.

        Objects that nobody claims are claimed. On False the caller must delete no object. Administrators are told then,
        and `contents` refuses new contents unless the claim is contested. A later True ends both. Blocks on the store
        of the objects. Raises `ContentsUnavailable` and `StoreUnavailable`.
        """
        found, store = contents.owner(), self._context.store
        known = (store.setting(OWNER) or {}).get(CLAIMS, [])
        if found and found not in known:
            contested = self._has_owned or found == _CONTESTED
            if contested and found != _CONTESTED:
                contents.set_owner(_CONTESTED)
            self._tell(contents, _describe_other(contents.owner_place, contested), contested=contested)
            return False
        claim = secrets.token_hex(16)
        # The database knows both: the service may end before the new claim is written.
        store.put_setting(OWNER, {CLAIMS: [*known, claim][-_MOST_CLAIMS:]})
        contents.set_owner(claim)
        self._has_owned = True
        self._tell(contents, "", contested=False)
        return True

    def _tell(self, contents: Contents, told: str, *, contested: bool) -> None:
        """Tell administrators what is wrong; refuse new contents for it, unless the folder is contested."""
        self._context.contents_warning = told if contested else ""
        contents.refuse("" if contested else told)
        if told and told != self._told:
            log.error("%s", told)
        self._told = told


def _describe_other(place: str, contested: bool) -> str:
    """Return a sentence about another database that claims the objects; `place` is where its claim is."""
    effect = "neither service deletes" if contested else "this service neither stores nor deletes"
    return (
        f"The large files of this database are also those of another one, a copy or an earlier state, so {effect} any. "
        "Stop the service that shall not have them, or give it another URL. Then delete the object "
        f"{place}, and the service that is left takes the files over within the hour, or at once if you restart it."
    )

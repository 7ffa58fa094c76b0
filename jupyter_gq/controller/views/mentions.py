"""The choice of the names that a reader sees, in all answers and events of the service.

Rules
-----
Own names: owners see their own names, such as "your job digits", and administrators see all names.

Others' names: the setting `c.SchedulerService.show_names` says who sees them: nobody, those who share a group of the
Hub or a queue with the owner, or all. Other readers see neutral words such as "another user's job".
"""

import json
from enum import StrEnum

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.mentions import render


class ShowNames(StrEnum):
    """The users who see the names of a user and of the user's work."""

    NOBODY = "nobody"
    GROUP = "group"
    ALL = "all"


class Mentions:
    """The mentions of users and of their work, for readers of answers and events."""

    def __init__(self, context: Context, show: ShowNames) -> None:
        self._context, self._show = context, show

    def render(self, document: str, reader: Caller | None) -> str:
        """Return a JSON document in which names that the reader may not see are replaced by their neutral words.

        What belongs to the reader is "your job digits" instead of "ann's digits".
        With `reader` None, names stay only if the setting shows them to all.
        """
        return render(
            document,
            lambda owner: self.may_see(reader, _read(owner)),
            lambda owner: reader is not None and reader.user == _read(owner),
        )

    def may_see(self, reader: Caller | None, owner: str) -> bool:
        """Tell whether the reader may see the names of this owner and of the owner's work.

        Always True for the owner, administrators, and all readers under the setting "all". Under "group", a shared
        group or queue is enough.
        """
        if self._show is ShowNames.ALL or (reader is not None and reader.may_see(owner)):
            return True
        return self._show is ShowNames.GROUP and reader is not None and self._are_together(reader, owner)

    def _are_together(self, reader: Caller, owner: str) -> bool:
        """Tell whether the reader shares a group of the Hub or a training queue with the owner."""
        groups, leaves_of = self._context.groups_of_user(owner), self._context.settings.leaves_of
        shared = set(leaves_of(reader.user, reader.groups)) & set(leaves_of(owner, groups))
        return bool(reader.groups & groups or shared)


def _read(owner: str) -> str:
    """Return the name of an owner, which inside a JSON document is written as in a JSON text."""
    name: str = json.loads(f'"{owner}"')
    return name

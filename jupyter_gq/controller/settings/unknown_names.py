"""Users and groups that the settings name and JupyterHub does not know: probably misspelt."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from .config import Settings
from .queues import TrainingQueue


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownNames:
    """The users of the Hub, and the groups that have a user."""

    users: frozenset[str]
    groups: frozenset[str]


def find_unknown_names(settings: Settings, known: KnownNames) -> tuple[str, ...]:
    """Return a sentence for each user and group in the settings that the Hub does not know, with a similar name."""
    found = []
    for setting, names, noun in _named(settings):
        there = known.users if noun == "user" else known.groups
        for name in sorted(set(names) - there):
            close = get_close_matches(name, sorted(there), n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            lacks = "has no such user" if noun == "user" else "has no user in such a group"
            found.append(f"{setting} names the {noun} {name!r}, but JupyterHub {lacks}.{guess}")
    return tuple(found)


def _named(settings: Settings) -> Iterator[tuple[str, Collection[str], str]]:
    """Yield each setting that names users or groups, with these names and either "user" or "group".

    Names that a queue inherits are named only for the queue above.
    """
    yield "c.FixedQuota.users", settings.user_quotas, "user"
    yield "c.FixedQuota.groups", settings.group_quotas, "group"
    by_name = {entry.queue.name: entry for entry in settings.training}
    for entry in settings.training:
        queue = f"c.TrainingQueues.queues[{entry.queue.name!r}]"
        above = by_name.get(entry.queue.parent or "", TrainingQueue(queue=entry.queue))
        yield f"{queue}['users']", entry.users - above.users, "user"
        yield f"{queue}['groups']", entry.groups - above.groups, "group"
        yield f"{queue}['managers']", entry.managers - above.managers, "user"
        yield f"{queue}['manager_groups']", entry.manager_groups - above.manager_groups, "group"

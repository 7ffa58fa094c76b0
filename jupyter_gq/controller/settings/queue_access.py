"""The queues that other users and groups may use after a change of the settings."""

from collections.abc import Iterator

from .config import Settings
from .queues import TrainingQueue


def find_access_changes(before: Settings, after: Settings) -> Iterator[str]:
    """Yield a line for each queue that other users or groups may use after the change, or that is new.

    Queues with queues below them are left out, because they take no jobs.
    """
    old = {entry.queue.name: entry for entry in before.leaves()}
    for entry in after.leaves():
        name = entry.queue.name
        was, will = _describe_users(old.get(name)), _describe_users(entry)
        if was != will:
            yield f"queue {name}: {was} -> {will}"


def _describe_users(entry: TrainingQueue | None) -> str:
    """Return a phrase for all who may use a queue, such as "everybody" or "users ann; groups nlp"."""
    if entry is None:
        return "nobody"
    if not entry.users and not entry.groups:
        return "everybody"
    lists = {
        "users": entry.users,
        "groups": entry.groups,
        "managers": entry.managers,
        "manager groups": entry.manager_groups,
    }
    return "; ".join(f"{kind} {', '.join(sorted(names))}" for kind, names in lists.items() if names)

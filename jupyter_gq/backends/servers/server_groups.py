"""The control groups of notebook servers, which the Hub has started in its own group.

Rules
-----
- Before the work: a server is moved right after its start, with all that it has started. Memory that a program held
  before it came into a group may not count there, so that a server is not moved later.
- Own processes only: a server that its spawner put into another group stays there.
- Found again: the name of a group follows from the run, so that it needs no record.
"""

from contextlib import suppress
from pathlib import Path

from jupyter_gq.backends.control_groups import (
    LEAF,
    ParentGroup,
    RunLimits,
    add_process,
    make_group,
    pids_of,
    remove_group,
)
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.devices.linux.control_group import find_group

_PREFIX = "jupyter-gq-server-"
#: Rounds in which processes that a server starts meanwhile are moved as well.
_ROUNDS = 5
_NONE = "The server has no control group of its own: with systemd, set Delegate=yes in the unit of the Hub."
_FOREIGN = "The server runs in a control group of its spawner, which jupyter-gq does not change."
_OLD = "The server was started before its memory could be limited: start it again."
_REFUSED = "The server could not be moved into a control group of its own."


def find_server_group(parent: ParentGroup | None, name: str, pid: int) -> tuple[str, str]:
    """Return the group `name` if the server is in it, and ""; else "" and why it has none, as a sentence."""
    if parent is None:
        return "", _NONE
    group = parent.folder / f"{_PREFIX}{name}"
    return (str(group), "") if _group_of(pid) == group else ("", _OLD)


def enter_group(parent: ParentGroup | None, name: str, pid: int) -> tuple[str, str]:
    """Move a server that has just started into a group `name` of its own, with all that it has started.

    Returns the folder of the group and "", or "" and why the server has none, as a sentence.
    """
    found, why = find_server_group(parent, name, pid)
    if found or parent is None:
        return found, why
    if _group_of(pid) not in (parent.folder, parent.folder / LEAF):
        return "", _FOREIGN
    group = ""
    for _ in range(_ROUNDS):
        # Made anew if another service of this machine has removed it while it was empty.
        group = make_group(parent, f"{_PREFIX}{name}", RunLimits())
        if not group:
            break
        left = [each for each in ProcessTable.read().tree(pid) if _group_of(each) not in (None, Path(group))]
        if not left:
            return group, ""
        for each in left:
            add_process(group, each)
    remove_group(group)
    return "", _REFUSED


def find_left_groups(parent: ParentGroup | None) -> list[str]:
    """Return the groups of servers that ended while there was no service; those with processes are left out."""
    if parent is None:
        return []
    with suppress(OSError):
        return [str(group) for group in sorted(parent.folder.glob(f"{_PREFIX}*")) if not pids_of(str(group))]
    return []


def _group_of(pid: int) -> Path | None:
    """Return the folder of the control group of a process; None if it has ended."""
    return find_group(Path("/proc") / str(pid))

"""The parts with which an agent suspends the shares of pods, and why they cannot be used on a node.

See docs/decisions/0202-keep-the-journal-of-suspensions-on-the-node.md and
docs/decisions/0288-let-a-smaller-agent-do-without-suspension.md.
"""

import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from jupyter_gq.devices.choose import choose_suspender
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.suspension.host_memory import LinuxHostMemory
from jupyter_gq.devices.suspension.journal import JOURNAL_NAME
from jupyter_gq.devices.suspension.journal_lock import JournalLock
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.devices.suspension.suspender import Suspender

from . import clock
from .processes import Processes
from .shares import PodShares
from .signals import NO_HOST_IDS, PodSignals

NO_JOURNAL: Final = (
    "The agent cannot write the folder {folder}, in which it notes what is suspended. Mount a folder of the node there "
    "that outlives the agent's pod; agent.suspend: true in the chart does."
)
OPEN_JOURNAL: Final = (
    "The folder {folder}, in which the agent notes what is suspended, is not root's alone: others could let the agent "
    "act on any process. Give it to root, and let nobody else write it (chown root, chmod go-w)."
)
NO_GROUPS: Final = (
    "The agent does not see the control groups of the node, so the memory limits of pods are not known, and a pod "
    "could be ended for the GPU memory that it takes back. The agent's container must be privileged, and the node's "
    "/sys/fs/cgroup must be mounted there."
)


def make_pod_shares(probe: DeviceProbe, processes: Processes, signals: PodSignals, folder: Path) -> PodShares:
    """Return the shares of the pods of this node, with a journal of their suspensions in `folder`.

    The folder is of the node, so that the next agent finds the journal.
    """
    host = LinuxHostMemory(must_see_groups=True)
    suspender = choose_suspender(probe, folder / JOURNAL_NAME, clock.monotonic, lambda: shares.most_suspended, host)
    lock = JournalLock(folder / JOURNAL_NAME)
    shares = PodShares(
        shares=RunShares(
            suspender=suspender, now=clock.now, awake=clock.monotonic, on_change=_wait_for_the_next_report
        ),
        processes=processes,
        explain_missing=partial(_explain_missing, suspender, signals, host, folder, lock),
        find_other_agent=lambda: lock.told,
    )
    return shares


def _explain_missing(
    suspender: Suspender,
    signals: PodSignals,
    host: LinuxHostMemory,
    folder: Path,
    lock: JournalLock,
    devices: Sequence[str],
) -> str:
    """Return why the agent can suspend nothing on these devices of its node, as a sentence; "" if it can.

    Takes the lock of the journal if no other agent has it, whatever else is missing. May block.
    """
    other = lock.hold()
    if not signals.knows_processes(devices):
        return NO_HOST_IDS
    if not os.access(folder, os.W_OK | os.X_OK):
        return NO_JOURNAL.format(folder=folder)
    if not _is_private(folder):
        return OPEN_JOURNAL.format(folder=folder)
    if other:
        return other
    if not all(map(is_simulated, devices)) and not host.sees_groups(os.getpid()):
        return NO_GROUPS
    support = suspender.support()
    return "" if support.available else support.detail


def _is_private(folder: Path) -> bool:
    """Return whether only the user of this agent, which is root on a node, can change what is in a folder."""
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _wait_for_the_next_report() -> None:
    """Do nothing: while a share is on its way, the next report follows within half a second."""

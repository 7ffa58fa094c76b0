"""The processes of a soak run, found in /proc: by their folder, by the mark of their run, by their command."""

import contextlib
import os
import re
import signal
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psutil

from jupyter_gq.backends.local.environment import MARK

#: Variables of a process that holds a share.
_TICKET, _GPUS, _DEVICES = "JUPYTER_GQ_TICKET", "JUPYTER_GQ_GPUS", "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Holder:
    """A living process of a job's run or of a notebook server, with the share in its environment."""

    process: psutil.Process
    #: The job or the ticket.
    workload: str
    #: Number of the run; 0 for a notebook.
    run: int
    command: str
    gpus: float
    devices: tuple[str, ...]


def find_in(folder: Path) -> list[psutil.Process]:
    """Return the living processes whose working folder is `folder` or below it, without this one."""
    return [each for each in psutil.process_iter() if each.pid != os.getpid() and _is_in(each, folder)]


def find_holders(folder: Path) -> list[Holder]:
    """Return the living processes of runs and of notebook servers below `folder`."""
    found = (_read_holder(process) for process in find_in(folder))
    return [holder for holder in found if holder is not None]


def live_workloads(folder: Path) -> set[str]:
    """Return the jobs and tickets with a share of a GPU that have a living process."""
    return {holder.workload for holder in find_holders(folder) if holder.gpus > 0}


def overcommitted_devices(folder: Path) -> dict[str, float]:
    """Return the devices of which living processes hold more than all, and how much they hold.

    A share counts once for each workload. A process that ended while /proc was read does not count.
    """
    holders = [holder for holder in find_holders(folder) if is_alive(holder.process)]
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for holder in holders:
        for device in holder.devices:
            shares[device][holder.workload] = min(holder.gpus, 1.0)
    return {device: total for device, each in shares.items() if (total := sum(each.values())) > 1.0001}


def read_command(process: psutil.Process) -> str:
    """Return the command line of a process; "" if the process has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def is_alive(process: psutil.Process) -> bool:
    """Return whether this very process still runs."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def find_orphans(folder: Path) -> list[str]:
    """Return a sentence for each process of a run or a server, and for each process in a home folder.

    Daemons that jobs started have no mark; they are found by their folder.
    """
    holders = {each.process.pid: f"of {each.workload}: {each.command}" for each in find_holders(folder)}
    daemons = {each.pid: f"in a home folder: {read_command(each)}" for each in find_in(folder / "homes")}
    return [f"process {pid} is left {about}"[:200] for pid, about in sorted((daemons | holders).items())]


def kill_all(folder: Path) -> None:
    """Kill every process below `folder`, also stopped ones, and those that they start meanwhile."""
    for _ in range(5):
        found = find_in(folder)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(found, 10)
        if not found:
            return


def _is_in(process: psutil.Process, folder: Path) -> bool:
    try:
        place = Path(process.cwd())
        return (place == folder or folder in place.parents) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _read_holder(process: psutil.Process) -> Holder | None:
    try:
        environment, command = process.environ(), " ".join(process.cmdline())
    except (psutil.Error, OSError):
        return None
    mark = re.fullmatch(r"(.+)/(\d+)/\d+", environment.get(MARK, ""))
    workload, run = (mark[1], int(mark[2])) if mark else (environment.get(_TICKET, ""), 0)
    if not workload:
        return None
    devices = tuple(each for each in environment.get(_DEVICES, "").split(",") if each)
    return Holder(process, workload, run, command, float(environment.get(_GPUS) or 0), devices)

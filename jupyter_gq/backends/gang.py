"""The variables by which the tasks of a job find each other.

Rules
-----
A task is a node: for launchers such as torchrun, each task is a node with as many processes as it has GPUs. They read
the `PET_` variables as defaults of their options, and set `RANK`, `WORLD_SIZE` and `LOCAL_RANK` for their processes.

A cell is a process: `RANK`, `WORLD_SIZE` and `LOCAL_RANK` count tasks, so that a cell can join the group itself.

An elastic job meets again: torchrun gets the range of numbers of nodes and the rendezvous at task 0, which never
leaves. Ranks and the size of the group change while such a job runs, so no variable names them: code that needs them
fails at once instead of waiting for tasks that are gone.

See docs/decisions/0135-a-task-is-a-node-for-launchers.md.
See docs/decisions/0155-let-torchrun-meet-again-at-task-0.md.
See docs/decisions/0185-let-torchrun-tell-its-address-at-each-meeting.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: How often torchrun starts its processes again after failures. Each task that leaves an elastic job fails the
#: processes of the others once, so a small number would end a job that often makes room.
MAX_RESTARTS: Final = 100
#: Makes torchrun tell the address of the group anew at each meeting. Otherwise a node that stays keeps the address of
#: its first meeting, and a node that joins waits for it in vain.
_SHARES_NO_STORE: Final = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendezvous:
    """The place where the tasks of one run meet."""

    #: Number of tasks.
    tasks: int
    #: Host name or address of task 0.
    address: str
    #: Port on which task 0 listens.
    port: int
    #: The least number of tasks with which an elastic run goes on; None = the run is not elastic.
    least: int | None = None
    #: Name of the meeting of an elastic run, which no other run has.
    name: str = ""


def gang_environment(task: int, devices: int, rendezvous: Rendezvous) -> Mapping[str, str]:
    """Return the variables of one task, which has so many devices; a single task is told only its number of processes.

    A task without a device is one process. `NNODES` of an elastic run is a range such as "2:4".
    """
    if rendezvous.least is not None:
        return _elastic_environment(task, devices, rendezvous, rendezvous.least)
    nodes = {
        "NNODES": str(rendezvous.tasks),
        "NODE_RANK": str(task),
        "NPROC_PER_NODE": str(max(1, devices)),
    }
    if rendezvous.tasks == 1:
        return _with_launcher_names(nodes)
    meeting = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
    ranks = {
        "RANK": str(task),
        "WORLD_SIZE": str(rendezvous.tasks),
        # Each task sees only its own devices, so its first device is number 0.
        "LOCAL_RANK": "0",
    }
    return {**ranks, **_with_launcher_names({**nodes, **meeting})}


def _elastic_environment(task: int, devices: int, rendezvous: Rendezvous, least: int) -> Mapping[str, str]:
    """Return the variables of one task of an elastic run, which goes on with `least` to `rendezvous.tasks` tasks."""
    endpoint = f"{rendezvous.address}:{rendezvous.port}"
    meeting = {
        "RDZV_BACKEND": "c10d",
        "RDZV_ENDPOINT": endpoint,
        "RDZV_ID": rendezvous.name,
        # Without it, each torchrun on the machine of the endpoint may become the host, also one that leaves later.
        "RDZV_CONF": f"is_host={'true' if task == 0 else 'false'}",
        "MAX_RESTARTS": str(MAX_RESTARTS),
    }
    nodes = {
        "NNODES": f"{least}:{rendezvous.tasks}",
        "NODE_RANK": str(task),
        "NPROC_PER_NODE": str(max(1, devices)),
    }
    launcher = {f"PET_{name}": value for name, value in meeting.items()}
    return {**_with_launcher_names(nodes), **launcher, _SHARES_NO_STORE: "1"}


def _with_launcher_names(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, each also under the name that torchrun reads."""
    return {**variables, **{f"PET_{name}": value for name, value in variables.items()}}

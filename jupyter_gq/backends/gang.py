"""The variables by which the tasks of a job find each other.

Rules
-----
A task is a node: for launchers such as torchrun, each task is a node with as many processes as it has GPUs. They read
the `PET_` variables as defaults of their options, and set `RANK`, `WORLD_SIZE` and `LOCAL_RANK` for their processes.

A cell is a process: `RANK`, `WORLD_SIZE` and `LOCAL_RANK` count tasks, so that a cell can join the group itself.

See docs/decisions/0135-a-task-is-a-node-for-launchers.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendezvous:
    """The place where the tasks of one run meet."""

    #: Number of tasks.
    tasks: int
    #: Host name or address of task 0.
    address: str
    #: Port on which task 0 listens.
    port: int


def gang_environment(task: int, devices: int, rendezvous: Rendezvous) -> Mapping[str, str]:
    """Return the variables of one task, which has so many devices; a single task is told only its number of processes.

    A task without a device is one process.
    """
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


def _with_launcher_names(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, each also under the name that torchrun reads."""
    return {**variables, **{f"PET_{name}": value for name, value in variables.items()}}

"""Host resources: CPU and memory of a node, and how many tasks it still takes."""

from enum import StrEnum

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request

WHOLE = int(ONE_GPU)
#: An amount that no node has: the resource is not counted.
UNCOUNTED = 1 << 60

#: CPU in thousandths of a core, memory in MiB, tasks.
HostResources = tuple[int, int, int]

#: The host resources of a node that counts none.
UNLIMITED: HostResources = (UNCOUNTED, UNCOUNTED, UNCOUNTED)

#: The host resources of a node that takes no tasks.
NO_RESOURCES: HostResources = (0, 0, 0)


class View(StrEnum):
    """The moment that a free amount is asked for."""

    NOW = "NOW"
    #: Once all work that is stopping now has stopped.
    FUTURE = "FUTURE"


def host_resources_of(node: Node) -> HostResources:
    """Return the CPU, memory and number of tasks that a node has for work; zeros if the node takes no new work.

    A resource that the node does not count is `UNCOUNTED`, and if it counts none, the result is `UNLIMITED`.
    """
    if node.closed:
        return NO_RESOURCES
    if node.cpu_milli is None and node.memory is None and node.max_tasks is None:
        return UNLIMITED
    return (
        UNCOUNTED if node.cpu_milli is None else node.cpu_milli,
        UNCOUNTED if node.memory is None else node.memory,
        UNCOUNTED if node.max_tasks is None else node.max_tasks,
    )


def host_request_of(request: Request) -> HostResources:
    """Return the CPU and memory that one task of a request takes, and 1 as the number of tasks."""
    return (request.cpu_milli, request.memory, 1)


def with_tasks(room: HostResources, need: HostResources, times: int) -> HostResources:
    """Return host resources plus `times` the need; resources that are not counted do not change."""
    if not times:
        return room
    cpu, memory, tasks = room
    return (
        cpu if cpu == UNCOUNTED else cpu + times * need[0],
        memory if memory == UNCOUNTED else memory + times * need[1],
        tasks if tasks == UNCOUNTED else tasks + times * need[2],
    )


def tasks_that_fit(room: HostResources, need: HostResources) -> int:
    """Return how many tasks that need `need` each fit into these host resources; `UNCOUNTED` if there is no bound."""
    if room is UNLIMITED:
        return UNCOUNTED
    cpu, memory, tasks = need
    most = room[2] // tasks
    if cpu:
        most = min(most, room[0] // cpu)
    if memory:
        most = min(most, room[1] // memory)
    return max(0, most)

"""What is left of a node beside its devices: CPU, memory, and how many tasks it still takes."""

from enum import StrEnum

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request

WHOLE = int(ONE_GPU)
#: More than any node has: what is not counted.
UNCOUNTED = 1 << 60

#: CPU in thousandths of a core, memory in MiB, tasks.
Room = tuple[int, int, int]

#: Of a node that counts nothing.
ROOMY: Room = (UNCOUNTED, UNCOUNTED, UNCOUNTED)

#: Of a node that takes no tasks.
NO_ROOM: Room = (0, 0, 0)


class View(StrEnum):
    """Which of the two amounts is asked for."""

    NOW = "NOW"
    FUTURE = "FUTURE"


def room_of(node: Node) -> Room:
    """All that tasks may use of it."""
    if node.closed:
        return NO_ROOM
    if node.cpu_milli is None and node.memory is None and node.max_tasks is None:
        return ROOMY
    return (
        UNCOUNTED if node.cpu_milli is None else node.cpu_milli,
        UNCOUNTED if node.memory is None else node.memory,
        UNCOUNTED if node.max_tasks is None else node.max_tasks,
    )


def need_of(request: Request) -> Room:
    """What one task of it takes."""
    return (request.cpu_milli, request.memory, 1)


def tasks_in(room: Room, need: Room) -> int:
    """So many tasks fit into that room."""
    if room is ROOMY:
        return UNCOUNTED
    cpu, memory, tasks = need
    most = room[2] // tasks
    if cpu:
        most = min(most, room[0] // cpu)
    if memory:
        most = min(most, room[1] // memory)
    return max(0, most)

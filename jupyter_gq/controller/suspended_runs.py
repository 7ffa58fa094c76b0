"""The suspended runs of waiting jobs, as far as they change what the scheduling core is shown.

Rules
-----
- Same kind of device: a suspended run goes on where it was, or on another device of the same model if the driver can
  move it. So the core is shown a request for such devices only.
- Memory once: the processes of a suspended run keep the memory of the machine that the job asked for. So its node
  offers that much less, and the core is shown that the waiting job needs none.

See docs/decisions/0166-count-the-memory-of-suspended-jobs-at-their-node.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from jupyter_gq.domain.amount import NO_MEMORY, MiB
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.store.protocol import Record

#: The sentence of a job whose suspended run has ended by itself. What the job goes on from is told beside it.
RUN_IS_GONE: Final = "Its suspended run has ended, and its GPU memory with it."
#: The sentence of a job whose suspended run was ended by a change of the job.
RUN_DOES_NOT_FIT: Final = (
    "Its suspended run was ended, because it cannot go on with other GPUs, with other tasks or in another pool. What "
    "it had not saved is computed again."
)
#: Sentences on the end of a suspended run, which are told beside the reason for which the job waits.
ENDS_OF_SUSPENDED_RUNS: Final = frozenset({RUN_IS_GONE, RUN_DOES_NOT_FIT})


def has_suspended_run(record: Record) -> bool:
    """Return whether the processes of a job are kept with its GPU state in host memory."""
    suspension = record.detail.suspension
    return record.workload.kind is Kind.TRAINING and suspension is not None and suspension.since is not None


def waits_suspended(record: Record) -> bool:
    """Return whether a job waits in its queue with a suspended run."""
    return record.workload.state is State.PENDING and has_suspended_run(record)


def bind_request(record: Record, devices: Mapping[str, Device], *, can_move: bool) -> Workload:
    """Return the job of a record that waits suspended, with a request for the devices on which its run can go on.

    The request names the devices that the run had or, if `can_move`, their model. Memory and preferred
    models are not named, since the run keeps its own. `devices` are all devices by id.
    """
    workload, place = record.workload, record.detail.place
    held = () if place is None else place.devices
    models = {devices[each].model for each in held if each in devices}
    request = replace(workload.request, memory=NO_MEMORY, device_memory=None, preferred_models=())
    if can_move and models:
        return replace(workload, request=replace(request, models=tuple(sorted(models))))
    return replace(workload, request=replace(request, only_devices=held))


def sum_kept_memory(records: Iterable[Record]) -> Mapping[str, MiB]:
    """Return the memory of the machine that suspended runs of waiting jobs keep, by node."""
    kept: dict[str, MiB] = {}
    for record in records:
        if waits_suspended(record) and record.detail.place is not None and record.workload.request.memory:
            node = record.detail.place.node
            kept[node] = MiB(kept.get(node, 0) + record.workload.request.memory)
    return kept


def without_memory(nodes: Iterable[Node], kept: Mapping[str, MiB]) -> tuple[Node, ...]:
    """Return the nodes without the memory that is kept on them."""
    return tuple(
        node
        if node.memory is None or not kept.get(node.name)
        else replace(node, memory=MiB(max(0, node.memory - kept[node.name])))
        for node in nodes
    )

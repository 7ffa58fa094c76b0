"""Requests that differ a little from one that would wait or run over quota, as the dialog can offer them.

Rules
-----
Really possible: each alternative is checked and decided as the request itself would be, so what is offered is what
happens if it is sent at this moment. A request that would be refused is no alternative.

Little changes: an alternative has another queue that the user may use, another GPU model, or fewer GPUs for each task.
Nothing else differs, and only one of the three.

Better only: beside a request that waits, an alternative starts at once or clearly earlier. Beside a request that starts
over quota, it starts at once within the quota.

Bounded: at most `MOST_OF_KIND` alternatives of each kind are tried, each by one cycle of the kept scheduler. Other
requests are answered between two cycles.

See docs/decisions/0139-let-the-scheduler-compute-alternatives.md.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.decide import Decider
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu, format_gpus, parse_request
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.preview.admission import Outlook
from jupyter_gq.scheduling.wording import describe_gpus
from jupyter_gq.scheduling.workloads import gang

from .new_workload import build_workload

#: Number of alternatives of each kind that are tried, and of all kinds that are offered.
MOST_OF_KIND, MOST_OFFERED = 3, 3
#: The shares of one GPU that are tried, in milli-GPU.
_FRACTIONS = (250, 500)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A request that differs from the one that was asked for, and what would become of it."""

    request: JobFields
    workload: Workload
    outlook: Outlook
    #: What differs, as the beginning of a sentence, such as "0.5 GPU" or "The queue nlp".
    difference: str


async def try_alternatives(
    context: Context, decider: Decider, caller: Caller, asked: JobFields, workload: Workload
) -> list[Tried]:
    """Return the alternatives that the caller could send, those that change least first, each decided by one cycle.

    `workload` is that of the request `asked`. Once an amount of GPUs starts within the quota, smaller ones are not
    tried.
    """
    tried: list[Tried] = []
    settled: set[tuple[str, str | None]] = set()
    for request, difference in _list_requests(context, caller, asked):
        if _place_of(request) in settled:
            continue
        try:
            each = build_workload(context, caller, request, workload.id)
        except UserError:
            continue
        (outlook,) = decider.preview(caller, [each])
        tried.append(Tried(request=request, workload=each, outlook=outlook, difference=difference))
        if outlook.starts_now and not outlook.over_quota:
            settled.add(_place_of(request))
        await asyncio.sleep(0)  # other requests come between two cycles
    return tried


def choose_better(asked: Outlook, tried: Sequence[Tried]) -> list[Tried]:
    """Return the alternatives that start at once, where the request waits, or within quota, where it runs over it.

    The ones within quota come first. Of several amounts of GPUs only the largest is returned, and a smaller one if only
    that is within quota.
    """
    at_once = [each for each in tried if each.outlook.starts_now]
    within = [each for each in at_once if not each.outlook.over_quota]
    over = [] if asked.starts_now else [each for each in at_once if each.outlook.over_quota]
    return [*_without_smaller(within), *_without_smaller(over)][:MOST_OFFERED]


def _without_smaller(tried: Sequence[Tried]) -> list[Tried]:
    """Return the alternatives without those that ask for fewer GPUs in the same queue and model than an earlier one."""
    kept: dict[tuple[str, str | None], Tried] = {}
    for each in tried:
        kept.setdefault(_place_of(each.request), each)
    return list(kept.values())


def _place_of(request: JobFields) -> tuple[str, str | None]:
    """Return what an alternative with fewer GPUs shares with the request: the queue and the GPU model."""
    return request.queue, request.gpu_model


def _list_requests(context: Context, caller: Caller, asked: JobFields) -> list[tuple[JobFields, str]]:
    """Return the requests to try, each with what differs: other queues, then other models, then fewer GPUs."""
    snapshot = context.snapshot([caller])
    queues = _rank_queues(snapshot, context.settings.leaves_of(caller.user, caller.groups), asked.queue)
    models = _list_other_models(snapshot, context.settings.train_pool, asked)
    fewer = [] if asked.gpu_memory is not None else _list_smaller(parse_request(asked.gpus))
    return [
        *((asked.model_copy(update={"queue": name}), f"The queue {name}") for name in queues[:MOST_OF_KIND]),
        *((asked.model_copy(update={"gpu_model": name}), f"A GPU of {name}") for name in models[:MOST_OF_KIND]),
        *(
            (asked.model_copy(update={"gpus": format_gpus(milli)}), describe_gpus(milli))
            for milli in fewer[:MOST_OF_KIND]
        ),
    ]


def _rank_queues(snapshot: Snapshot, usable: Sequence[str], asked: str) -> list[str]:
    """Return the usable queues other than the one asked for, those with the most unused quota first."""
    free = {queue.name: int(queue.quota) for queue in snapshot.queues if queue.name in usable and queue.name != asked}
    for each in snapshot.workloads:
        if each.holds and each.queue in free:
            free[each.queue] -= gang.occupied(each)
    return sorted(free, key=lambda name: (-free[name], name))


def _list_other_models(snapshot: Snapshot, pool: str, asked: JobFields) -> list[str]:
    """Return the models of the pool other than the only one that a request allows; none if it allows any."""
    if asked.gpu_model is None:
        return []
    devices = (device for node in snapshot.nodes for device in node.devices if device.pool == pool)
    return sorted({device.model for device in devices} - {asked.gpu_model})


def _list_smaller(milli: MilliGpu) -> list[MilliGpu]:
    """Return amounts below `milli` milli-GPU, the largest first: powers of two of whole GPUs, then shares of one."""
    whole = [ONE_GPU << power for power in range(10)]
    return [MilliGpu(amount) for amount in sorted((*_FRACTIONS, *whole), reverse=True) if amount < milli]

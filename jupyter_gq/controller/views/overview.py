"""The views of totals: the quota and choices of a user, queues, pools and devices."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from jupyter_gq.client.models import Bounds, Choice, DeviceList, DeviceView, Me, PoolView, QueueList, QueueView
from jupyter_gq.client.state import LiveState, state_document
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.decide import Decider
from jupyter_gq.controller.loop.runs.other_runs import describe_needless_run, describe_unknown_run
from jupyter_gq.controller.records.last_evictions import last_eviction
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu, format_cpus, format_gpus, format_memory
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.errors import NeverFits, QuotaExceeded
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.queue import Queue, build_queue
from jupyter_gq.domain.queue_tree import path_of
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling import wording
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.scheduling.workloads import gang

from .share_levels import describe_fractions
from .workload_views import eviction_view

#: The shares, in milli-GPU, that the options page offers up to the user's quota. The quota itself is always offered.
SHARE_STEPS: tuple[MilliGpu, ...] = tuple(MilliGpu(milli) for milli in (250, 500, 750, *range(1000, 17_000, 1000)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """The usage of one queue with all queues below it."""

    #: Milli-GPU, thousandths of a core and MiB held.
    used: int = 0
    cpu_milli: int = 0
    memory: int = 0
    #: Number of workloads that wait, and of those that hold devices.
    waiting: int = 0
    running: int = 0


class Overview:
    """The requests about totals. Choices are previews of the cycle, and are kept until something changes."""

    def __init__(self, context: Context, decider: Decider) -> None:
        self._context, self._decider = context, decider
        #: The choices by user and groups, each with the inputs from which they were computed.
        self._choices: dict[tuple[str, frozenset[str]], tuple[object, list[Choice]]] = {}

    def describe_user(self, caller: Caller) -> Me:
        """Return the caller's data for the options page and the send dialog: quota, choices, queues and pools."""
        context = self._context
        context.remember_groups(caller)
        settings, snapshot = context.settings, context.snapshot([caller])
        quota = settings.fixed_quota(caller.user, caller.groups)
        used = used_fixed_quota(snapshot, caller.user)
        secrets = context.backend_of(Kind.TRAINING).capabilities.secrets
        return Me(
            user=caller.user,
            groups=sorted(caller.groups),
            admin=caller.admin,
            quota=format_gpus(quota),
            used=format_gpus(used),
            left=format_gpus(max(0, quota - used)),
            choices=self._choices_of(caller, snapshot),
            queues=queue_views(settings, snapshot, caller),
            pools=[pool_view(name, snapshot) for name in settings.pools],
            build_pool=settings.build_pool,
            largest_request=format_gpus(largest_request(possible_nodes(snapshot), settings.train_pool)),
            secrets=[] if secrets is None else list(settings.secrets),
            secrets_in_home=secrets is not None and secrets.in_home,
            images=list(context.images),
            last_eviction=eviction_view(last_eviction(context.store, caller.user)),
            level_sentence=describe_fractions(context),
            devices_sentence=describe_devices(context.probe),
        )

    def list_queues(self, caller: Caller) -> QueueList:
        """Return the queues that the caller may use, with the queues above them; for an admin, all queues."""
        return QueueList(queues=queue_views(self._context.settings, self._context.snapshot(), caller))

    def list_devices(self, caller: Caller) -> DeviceList:
        """Return all devices with their use; for admins also the holders, and why a device takes nothing new."""
        snapshot = self._context.snapshot()
        used, holders, notes = _used_by_device(snapshot), _holders_by_device(snapshot), self._device_notes(snapshot)
        if not caller.admin:
            holders, notes = {}, {}
        views = [
            _device_view(node, device, used.get(device.id, 0), holders.get(device.id, []), notes.get(device.id, ""))
            for node in snapshot.nodes
            for device in node.devices
        ]
        return DeviceList(devices=views)

    def _device_notes(self, snapshot: Snapshot) -> dict[str, str]:
        """Return, by device id, a phrase that says why the device takes nothing new; "" if there is no known reason."""
        drains, notes = self._context.drains, {}
        runs = {device: describe_needless_run(run) for run in self._context.needless_runs for device in run.devices}
        runs |= {device: describe_unknown_run(run) for run in self._context.unknown_runs for device in run.devices}
        for node in snapshot.nodes:
            for device in node.devices:
                drain = drains.get(device.id) or drains.get(node.name)
                closed = node.closed if device.pool else "in no pool of the configuration any more"
                reasons = (closed if drain is None else drain.describe(), runs.get(device.id, ""))
                notes[device.id] = "; ".join(reason for reason in reasons if reason)
        return notes

    def read_state(self) -> JsonObject:
        """Return the input of a cycle at this moment and its decision, as a state document; see `client.state`."""
        context = self._context
        last_good = context.settings_source.last_good
        state = LiveState(
            at=context.clock.now(),
            policy=context.settings.policy,
            snapshot=context.snapshot(),
            settings={} if last_good is None else last_good.sections,
            groups={
                record.workload.owner: tuple(sorted(context.groups_of(record)))
                for record in context.records.unfinished()
            },
            offered_nodes=context.offered_nodes(),
        )
        return state_document(state, self._decider.decide_on(state.snapshot, state.at))

    def _choices_of(self, caller: Caller, snapshot: Snapshot) -> list[Choice]:
        """Return the shares that the caller may choose; the last result is used again if no input has changed."""
        context = self._context
        # Sentences about requested nodes name whole minutes.
        minute = int(context.clock.now() // 60) if any(new.request for new in snapshot.new_nodes) else 0
        stamp = (
            context.records.revision,
            context.settings,
            snapshot.nodes,
            snapshot.new_nodes,
            snapshot.unobserved,
            minute,
        )
        key = (caller.user, caller.groups)
        known = self._choices.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        quota = context.settings.fixed_quota(caller.user, caller.groups)
        choices = self._preview_choices(
            caller, snapshot, {quota, *(step for step in SHARE_STEPS if step <= quota)} - {0}
        )
        # Choices from older inputs are never used again.
        self._choices = {other: kept for other, kept in self._choices.items() if kept[0] == stamp}
        self._choices[key] = (stamp, choices)
        return choices

    def _preview_choices(self, caller: Caller, snapshot: Snapshot, amounts: Iterable[int]) -> list[Choice]:
        """Return the choices of CPU only and of these milli-GPU amounts, smallest first.

        Each is decided as if it were asked for now. An amount beyond the quota that is left, or that no node can give,
        is unavailable, with the reason.
        """
        found = {0: Choice(gpus="0", available=True, starts_now=True, sentence="Starts now, without a GPU.")}
        possible: dict[int, Workload] = {}
        for amount in amounts:
            workload = self._notebook(caller, MilliGpu(amount))
            try:
                admission.check_fixed_quota(snapshot, workload)
                admission.check_fits(snapshot, workload)
                possible[amount] = workload
            except (QuotaExceeded, NeverFits) as refusal:
                found[amount] = Choice(gpus=format_gpus(amount), available=False, sentence=str(refusal))
        outlooks = self._decider.preview(caller, tuple(possible.values()))
        for amount, outlook in zip(possible, outlooks, strict=True):
            now, told = outlook.starts_now, outlook.sentence
            found[amount] = Choice(gpus=format_gpus(amount), available=True, starts_now=now, sentence=told)
        return [found[amount] for amount in sorted(found)]

    def _notebook(self, caller: Caller, amount: MilliGpu) -> Workload:
        """Return the workload of a new notebook of the caller with that many milli-GPU, for a preview."""
        return Workload(
            id="choice",
            kind=Kind.NOTEBOOK,
            owner=caller.user,
            name="",
            queue=build_queue(caller.user),
            request=self._context.request(Kind.NOTEBOOK, amount),
            preemptible=False,
            submitted_at=self._context.clock.now(),
        )


def describe_devices(probe: DeviceProbe | None) -> str:
    """Return a sentence that says whether the devices are real or simulated, and why; "" if there is no probe."""
    return "" if probe is None else probe.status().detail


def used_fixed_quota(snapshot: Snapshot, user: str) -> int:
    """Return the milli-GPU of the user's fixed quota that their waiting and running servers take.

    Servers that are stopping do not count.
    """
    leaf = build_queue(user)
    mine = [w for w in snapshot.workloads if w.queue == leaf and w.state is not State.STOPPING]
    return sum(workload.milli for workload in mine)


def queue_views(settings: Settings, snapshot: Snapshot, caller: Caller) -> list[QueueView]:
    """Return the training queues that the caller may use and the queues above them, parents before children.

    An admin sees all training queues.
    """
    own = set(settings.leaves_of(caller.user, caller.groups))
    queues = {queue.name: queue for queue in settings.training_tree()}
    visible = set(queues) if caller.admin else {queue.name for name in own for queue in path_of(name, queues)}
    totals = _totals(settings, snapshot)
    views = []
    for entry in settings.training:
        queue = entry.queue
        if queue.name not in visible:
            continue
        total, defaults = totals.get(queue.name, Totals()), settings.defaults_of(queue.name)
        views.append(
            QueueView(
                name=queue.name,
                parent=queue.parent,
                pool=queue.pool,
                quota=format_gpus(queue.quota),
                limit=None if queue.limit is None else format_gpus(queue.limit),
                used=format_gpus(total.used),
                over_quota=format_gpus(max(0, total.used - queue.quota)),
                cpus=_bounds((queue.cpu_quota, queue.cpu_limit, total.cpu_milli, defaults.cpu_milli), format_cpus),
                memory=_bounds((queue.memory_quota, queue.memory_limit, total.memory, defaults.memory), format_memory),
                waiting=total.waiting,
                running=total.running,
                over_quota_weight=queue.over_quota_weight,
                priority=queue.priority,
                member=queue.name in own,
                max_priority=entry.highest_priority(caller),
                max_seconds=entry.max_seconds,
            )
        )
    return views


def _bounds(amounts: tuple[int | None, int | None, int, int | None], text: Callable[[int], str]) -> Bounds:
    """Return the amounts (quota, limit, used, default) of a queue as text; `text` formats an amount."""
    quota, limit, used, default = (None if amount is None else text(amount) for amount in amounts)
    return Bounds(quota=quota, limit=limit, used=used or text(0), default=default)


def over_quota_by_job(
    workloads: Iterable[Workload], queues: Iterable[Queue], borrowers: Collection[str] = ()
) -> dict[str, int]:
    """Return, by id, how many milli-GPU of each preemptible job that holds devices count as above its queue's quota.

    All of a job in `borrowers` counts, because the owner of the devices that are lent to it may want them back at any
    moment. The newest of the other jobs bear the rest of the excess, and jobs without excess have 0. Work that is not
    preemptible uses the quota first.
    """
    above = {queue.name: -queue.quota for queue in queues}
    holding = [w for w in workloads if w.holds and w.queue in above]
    for workload in holding:
        above[workload.queue] += gang.occupied(workload)
    shares: dict[str, int] = {}
    preemptible = [w for w in holding if w.preemptible]
    for workload in sorted(preemptible, key=lambda w: (w.id in borrowers, w.started_at or 0.0, w.id), reverse=True):
        held = gang.occupied(workload)
        shares[workload.id] = held if workload.id in borrowers else max(0, min(held, above[workload.queue]))
        above[workload.queue] -= shares[workload.id]
    return shares


def pool_view(name: str, snapshot: Snapshot) -> PoolView:
    """Return the totals of a pool, with the model and memory of its first device; unhealthy devices are not free."""
    nodes = [node for node in snapshot.nodes if any(device.pool == name for device in node.devices)]
    devices = [device for node in nodes for device in node.devices if device.pool == name]
    possible = [node for node in possible_nodes(snapshot) if any(device.pool == name for device in node.devices)]
    used = _used_by_device(snapshot)
    free = [ONE_GPU - used.get(device.id, 0) for device in devices if device.healthy]
    return PoolView(
        name=name,
        devices=len(devices),
        model=devices[0].model if devices else None,
        models=sorted({device.model for device in devices}),
        memory_mib=devices[0].memory if devices else None,
        largest_cpus=_largest([node.cpu_milli for node in possible], format_cpus),
        largest_memory=_largest([node.memory for node in possible], wording.describe_memory),
        total=format_gpus(ONE_GPU * len(devices)),
        free=format_gpus(sum(free)),
        largest_fraction=format_gpus(max(free, default=0)),
    )


def _largest(amounts: Sequence[int | None], text: Callable[[int], str]) -> str | None:
    """Return the largest amount as text; None if an amount is None, which means not counted, or if there are none."""
    counted = [amount for amount in amounts if amount is not None]
    return text(max(counted)) if counted and len(counted) == len(amounts) else None


def possible_nodes(snapshot: Snapshot) -> tuple[Node, ...]:
    """Return the present nodes, and one node like those that the cluster may still add to each pool."""
    return (*snapshot.nodes, *(new.like for new in snapshot.new_nodes if new.count))


def largest_request(nodes: Sequence[Node], pool: str) -> int:
    """Return the most milli-GPU that one task can have: all devices of the pool on the node that has most of them."""
    sizes = [sum(ONE_GPU for device in node.devices if device.pool == pool) for node in nodes]
    return max(sizes, default=0)


def _totals(settings: Settings, snapshot: Snapshot) -> dict[str, Totals]:
    """Return, by name, the totals of the training queues that have workloads; a queue counts all queues below it."""
    queues = {queue.name: queue for queue in settings.training_tree()}
    totals: dict[str, Totals] = {}
    for workload in snapshot.workloads:
        cpu_milli, memory = gang.held_host(workload)
        for queue in path_of(workload.queue, queues):
            before = totals.get(queue.name, Totals())
            totals[queue.name] = Totals(
                used=before.used + (gang.occupied(workload) if workload.holds else 0),
                cpu_milli=before.cpu_milli + cpu_milli,
                memory=before.memory + memory,
                waiting=before.waiting + (not workload.holds),
                running=before.running + workload.holds,
            )
    return totals


def _used_by_device(snapshot: Snapshot) -> dict[str, int]:
    """Return the milli-GPU that workloads hold of each device, by its id; unused devices are absent.

    Suspended notebooks do not count, since they have lent their parts.
    """
    used: dict[str, int] = {}
    for workload in snapshot.workloads:
        if workload.state is State.SUSPENDED:
            continue
        for task in workload.held_places:
            for device in task.devices:
                used[device] = used.get(device, 0) + workload.request.milli_per_device
    return used


def _holders_by_device(snapshot: Snapshot) -> dict[str, list[tuple[Workload, int]]]:
    """Return the workloads that hold each device, and how many tasks of each; unused devices are absent."""
    holders: dict[str, list[tuple[Workload, int]]] = {}
    for workload in snapshot.workloads:
        tasks = Counter(device for task in workload.held_places for device in task.devices)
        for device, count in tasks.items():
            holders.setdefault(device, []).append((workload, count))
    return holders


def _device_view(
    node: Node, device: Device, used: int, holders: Sequence[tuple[Workload, int]], note: str
) -> DeviceView:
    """Return the view of a device of which `used` milli-GPU are held; `note` is shown as given.

    `holders` are workloads with the number of their tasks on the device.
    """
    named = [
        {
            "id": workload.id,
            "owner": workload.owner,
            "name": workload.name,
            "gpus": format_gpus(tasks * workload.request.milli_per_device),
        }
        for workload, tasks in holders
    ]
    return DeviceView(
        id=device.id,
        index=device.index,
        model=device.model,
        memory_mib=device.memory,
        pool=device.pool,
        healthy=device.healthy,
        draining=device.draining or node.draining or not device.pool,
        used=format_gpus(used),
        holders=named,
        note=note,
    )

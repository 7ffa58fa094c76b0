"""The memory watchdog at work: it judges each sample of the shares, and has programs above the limit signalled.

Rules
-----
- One reading: the samples are those by which idleness is judged, at most one in five seconds.
- Parts of devices only: a share of whole devices takes memory from nobody.
- Own processes only: the backend, or the agent of the node, signals a process only if it belongs to the run then.
- Honest level: a share is watched only if its last sample was complete and its programs can be signalled.
- Host ids: with process ids that are not those of the driver, nothing is judged.
- Done when sent: on a cluster a step is an order to an agent. The step counts, and is recorded, once the agent has told
  that the signal was sent. An order that lapses is given again at the next sample, if the share is over its limit then.

See `devices.memory_watchdog` for the steps.
See docs/decisions/0160-judge-in-the-service-and-act-by-agents.md.
"""

import logging
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jupyter_gq.backends.capabilities import SignalResult
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.memory_excess import MemoryExcess
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change
from jupyter_gq.devices.limits import is_simulated, watched_memory
from jupyter_gq.devices.memory_watchdog import Act, Excess, LimitedUse, Watched, WatchRule, judge
from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, Seconds
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import RunKey, Workload
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Seconds for which the owner is told what was done, once the share is within its limit again.
_TOLD_FOR = Seconds(600)
_SIGNALS = {Act.INTERRUPT: signal.SIGINT, Act.TERMINATE: signal.SIGTERM, Act.KILL: signal.SIGKILL}
_ACTIONS = {
    Act.WARN: Action.MEMORY_WARN,
    Act.INTERRUPT: Action.MEMORY_INTERRUPT,
    Act.TERMINATE: Action.MEMORY_TERMINATE,
    Act.KILL: Action.MEMORY_KILL,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Order:
    """A step that an agent was ordered to take."""

    id: str
    record: Record
    act: Act
    excess: Excess
    #: What to remember of the share once the step is taken.
    then: Watched


class MemoryWatch:
    """The watchdog over the device memory of all shares."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._states: dict[RunKey, Watched] = {}
        #: Orders whose result is not known yet; one for each run at most.
        self._orders: dict[RunKey, _Order] = {}
        self._checked_at: Instant | None = None
        #: Shares whose programs could not be signalled the last time.
        self._refused: set[RunKey] = set()

    def settle(self) -> None:
        """Record the ordered steps that agents have taken since the last call; drop those that they did not take."""
        for key, order in list(self._orders.items()):
            port = self._context.backend_of(order.record.workload.kind).capabilities.ordered_signals
            result = SignalResult.LAPSED if port is None else port.signal_result(order.id)
            if result is SignalResult.WAITING:
                continue
            if result is SignalResult.SENT:
                self._take(key, order)
            elif result is SignalResult.REFUSED:
                self._note_refusal(order.record, order.excess)
            del self._orders[key]

    def _take(self, key: RunKey, order: _Order) -> None:
        """Record a step that an agent has taken, whether its share still exists or not."""
        self._refused.discard(key)
        self._record(order.record, order.act, order.excess)
        self._tell(order.record, order.then)
        if (before := self._states.get(key)) is not None:
            self._states[key] = replace(order.then, over_at=before.over_at, known=before.known)

    def check(self) -> None:
        """Judge all shares by the last sample, act where an act is due, and tell the owners; once for each sample."""
        context = self._context
        if context.usage_at is None or context.usage_at == self._checked_at:
            return
        self._checked_at = now = context.usage_at
        rule = context.settings.memory_watch
        devices = {device.id: device for node in context.nodes() for device in node.devices}
        shares = {
            (record.workload.id, record.workload.run): (record, self._limited_uses(record.workload, devices))
            for record in context.records.holding()
            if rule.enabled and _is_watchable(record)
        }
        self._states = {key: self._states.get(key, Watched()) for key in shares}
        for key, (record, uses) in shares.items():
            self._states[key] = self._check_share(record, self._states[key], uses, rule)
        self._refused &= shares.keys()
        context.watched = frozenset(name for (name, _), state in self._states.items() if state.known)
        self._forget_told(now)

    def _limited_uses(self, workload: Workload, devices: Mapping[str, Device]) -> list[LimitedUse]:
        """Return the use and the limit of a share on each of its devices; empty if the use or a limit is unknown."""
        tasks = Counter(device for task in workload.held_places for device in task.devices)
        by_agents = self._context.backend_of(workload.kind).capabilities.ordered_signals is not None
        if not by_agents and not self._context.host_pids and not all(map(is_simulated, tasks)):
            return []  # agents report no processes that the driver knows by other ids
        use = self._context.usage.get(workload.id)
        found: list[LimitedUse] = []
        for each in () if use is None else use.devices:
            device = devices.get(each.device)
            if device is not None and each.total is not None:
                device = replace(device, memory=each.total)
            limit = None if device is None else watched_memory(device, workload.request.milli_per_device)
            if limit is None:
                return []
            found.append(LimitedUse(limit=MiB(limit * tasks[each.device]), use=each))
        return found

    def _check_share(self, record: Record, before: Watched, uses: list[LimitedUse], rule: WatchRule) -> Watched:
        """Judge one share and act if that is due; return what to remember of it.

        If a program cannot be signalled, the step is not counted as done, and the share is not watched. A step that is
        only ordered is not counted either, until `settle`.
        """
        assert self._checked_at is not None
        key = (record.workload.id, record.workload.run)
        after, due = judge(before, uses, self._checked_at, rule)
        if due is not None and after.excess is not None:
            if self._act(record, due, after):
                self._refused.discard(key)
                self._record(record, due, after.excess)
            else:
                after = replace(before, over_at=after.over_at, excess=after.excess, known=after.known)
        if after.over_at is None:
            self._refused.discard(key)
        elif key in self._refused:
            after = replace(after, known=False)
        self._tell(record, after)
        return after

    def _act(self, record: Record, due: Act, after: Watched) -> bool:
        """Carry out one step, or order it; return whether it was done. A warning is only told.

        `after` is what to remember once the step is done.
        """
        assert after.excess is not None
        if due is Act.WARN:
            return True
        workload, excess = record.workload, after.excess
        key, number = (workload.id, workload.run), _SIGNALS[due]
        if key in self._orders:
            return False
        able = self._context.backend_of(workload.kind).capabilities
        if (orders := able.ordered_signals) is not None:
            id = orders.order_signal(key, excess.device, excess.largest, number)
            if id:
                self._orders[key] = _Order(id=id, record=record, act=due, excess=excess, then=after)
                return False
        elif able.process_signals is not None and able.process_signals.signal_process(*key, excess.largest, number):
            return True
        self._note_refusal(record, excess)
        return False

    def _note_refusal(self, record: Record, excess: Excess) -> None:
        """Record that no signal reached a program, and log it for the first time in a row."""
        workload = record.workload
        if (key := (workload.id, workload.run)) not in self._refused:
            self._refused.add(key)
            log.warning(
                "%s: process %d is above the memory limit, and no signal reaches it",
                workload.id,
                excess.largest.pid,
                extra=workload.log_fields,
            )

    def _record(self, record: Record, done: Act, excess: Excess) -> None:
        """Write a step to the log and to the audit log."""
        workload, now = record.workload, self._context.clock.now()
        entry = act_of_scheduler(
            _ACTIONS[done],
            workload,
            now,
            device=excess.device,
            used_mib=excess.used,
            limit_mib=excess.limit,
            pid=excess.largest.pid,
            pid_mib=excess.largest_used,
        )
        if self._context.records.find_unfinished(workload.id) is not None:
            self._context.records.commit([Change(workload=workload.id, audit=entry)])
        else:  # the signal has ended the whole run meanwhile
            self._context.records.add_audit(entry)
        log.warning(
            "%s: %s: %d MiB on %s, limit %d MiB, process %d has %d MiB",
            _ACTIONS[done].value,
            workload.id,
            excess.used,
            excess.device,
            excess.limit,
            excess.largest.pid,
            excess.largest_used,
            extra=workload.log_fields,
        )

    def _tell(self, record: Record, state: Watched) -> None:
        """Store what the owner of the share is told; what was done is told for a while after the excess."""
        name, told, rule = record.workload.id, self._context.excesses, self._context.settings.memory_watch
        if state.excess is not None and state.done is not None and state.over_at is not None:
            told[name] = MemoryExcess(
                excess=state.excess,
                done=state.done,
                next=state.next_act,
                next_at=Instant(state.over_at + state.seconds_left(rule)),
                seen_at=Instant(state.over_at),
            )
        elif name in told:
            if told[name].acted:
                told[name] = replace(told[name], next=None, next_at=None)
            else:
                del told[name]

    def _forget_told(self, now: Instant) -> None:
        """Forget what was told long ago, and of workloads that have ended."""
        find = self._context.records.find_unfinished
        self._context.excesses = {
            name: told
            for name, told in self._context.excesses.items()
            if find(name) is not None and now - told.seen_at < _TOLD_FOR
        }


def _is_watchable(record: Record) -> bool:
    """Return whether the share is a part of a device and its memory is there: it is not being suspended."""
    workload = record.workload
    is_part = workload.request.devices > 0 and workload.request.milli_per_device < ONE_GPU
    return workload.state is State.RUNNING and is_part and record.detail.suspension is None

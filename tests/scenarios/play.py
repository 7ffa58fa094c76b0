"""Plays a scenario file: a cluster, and steps; every cycle's decision is kept as plain data.

Steps: `cycle` (decide and apply), `stopped` (everything told to stop has stopped), `later: SECONDS`, `end: ID`,
`job: {...}`, `notebook: {...}`, `cordon: NODE`, `idle: {notebook: ID, seconds: N}`, `used: ID`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Activity, Kind, Workload
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Instruction, Suspend, Warn
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, apply, cordoned, stopped, without
from tests.explanations import explained


class Play:
    """The state of a scenario while it is played."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        cluster = Cluster()
        for name, pools in scenario["nodes"].items():
            cluster.pools(name, **pools)
        if "fixed" in scenario:
            cluster.fixed(**scenario["fixed"])
        for name, fields in scenario.get("queues", {}).items():
            cluster.queue(name, **fields)
        self.snapshot: Snapshot = cluster.snapshot()
        self.policy = Policy(placement=PlacementStrategy(scenario.get("placement", "pack")))
        self.now = float(NOW)
        self.decisions: list[dict[str, Any]] = []

    def step(self, step: str | Mapping[str, Any]) -> None:
        ((act, what),) = step.items() if isinstance(step, Mapping) else ((step, None),)
        getattr(self, f"_{act}")(what)

    def _cycle(self, _: None) -> None:
        decision = explained(self.snapshot, self.policy, Instant(self.now))
        self.decisions.append(as_data(decision))
        self.snapshot = apply(self.snapshot, decision, self.now)

    def _stopped(self, _: None) -> None:
        self.snapshot = stopped(self.snapshot)

    def _later(self, seconds: float) -> None:
        """Time passes; what is known of the notebooks stays fresh."""
        self.now += seconds
        for workload in self.snapshot.workloads:
            if workload.activity is not None:
                self._put(replace(workload, activity=replace(workload.activity, sampled_at=Instant(self.now))))

    def _end(self, workload: str) -> None:
        self.snapshot = without(self.snapshot, workload)

    def _cordon(self, name: str) -> None:
        nodes = tuple(cordoned(node) if node.name == name else node for node in self.snapshot.nodes)
        self.snapshot = replace(self.snapshot, nodes=nodes)

    def _job(self, fields: Mapping[str, Any]) -> None:
        self._submit(a_job(**fields))

    def _notebook(self, fields: Mapping[str, Any]) -> None:
        self._submit(a_notebook(**fields))

    def _idle(self, what: Mapping[str, Any]) -> None:
        self._use(what["notebook"], self.now - what["seconds"], busy=False)

    def _used(self, notebook: str) -> None:
        self._use(notebook, self.now, busy=True)

    def _use(self, notebook: str, last: float, *, busy: bool) -> None:
        (workload,) = [w for w in self.snapshot.workloads if w.id == notebook]
        assert workload.kind is Kind.NOTEBOOK
        told = workload.activity.expire_at if workload.activity is not None else None
        activity = Activity(busy=busy, last_active=Instant(last), sampled_at=Instant(self.now), expire_at=told)
        self._put(replace(workload, activity=activity, started_at=min(workload.started_at, Instant(last - 1000))))

    def _submit(self, workload: Workload) -> None:
        workload = replace(workload, submitted_at=Instant(self.now + len(self.snapshot.workloads)))
        self.snapshot = replace(self.snapshot, workloads=(*self.snapshot.workloads, workload))

    def _put(self, workload: Workload) -> None:
        others = tuple(workload if w.id == workload.id else w for w in self.snapshot.workloads)
        self.snapshot = replace(self.snapshot, workloads=others)


def as_data(decision: Decision) -> dict[str, Any]:
    """A decision as plain data with all names, for a file that people read."""
    data: dict[str, Any] = json.loads(reveal(json.dumps(_marked_data(decision), ensure_ascii=False)))
    return data


def _marked_data(decision: Decision) -> dict[str, Any]:
    return {
        "do": [_instruction(instruction) for instruction in decision.instructions],
        "wait": {
            f"{entry.workload} ({entry.position})": f"{entry.why.reason}: {entry.why.sentence}"
            for entry in decision.pending
        },
    }


def _instruction(instruction: Instruction) -> dict[str, Any]:
    name = type(instruction).__name__.lower()
    match instruction:
        case Admit():
            devices = [" ".join(task.devices) for task in instruction.placement]
            over = {"over_quota": instruction.over_quota / 1000} if instruction.over_quota else {}
            return {name: instruction.workload, "on": devices, **over}
        case Evict():
            reason = str(instruction.reason)
            return {name: instruction.workload, "because": reason, "by": instruction.by, "says": instruction.sentence}
        case Suspend():
            return {name: instruction.workload, "by": instruction.by, "says": instruction.sentence}
        case Warn():
            at = instruction.expire_at - NOW
            return {name: instruction.workload, "at": at, "by": instruction.by, "says": instruction.sentence}
    return {name: instruction.workload}

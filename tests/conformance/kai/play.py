"""Let our core decide on a case, round by round, and compare what became of each task with what was expected."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from jupyter_gq.domain import validate
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import admit, grow_admitted, run_cycle, serve_preemptors
from jupyter_gq.scheduling.decision import Admit, Evict, Grow, Instruction, Reserve, Shrink
from jupyter_gq.scheduling.evict.consolidate import consolidate
from jupyter_gq.scheduling.evict.preempt import preempt
from jupyter_gq.scheduling.evict.reclaim import reclaim
from jupyter_gq.scheduling.evict.reprieve import reprieve_victims
from jupyter_gq.scheduling.evict.stale_gangs import requeue_stale
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleState, begin_cycle
from jupyter_gq.scheduling.state.instructions import instructions_of

from .translate import NOW, Task, World, between_rounds, place_of, snapshot_of, workload_id, world_of
from .verdict import Case, Difference


def _allocate(state: CycleState) -> None:
    index = state.inputs.index
    serve_preemptors(state.allocations, state.reservations, state.evictions)
    admit(index, state.allocations, state.evictions)
    grow_admitted(state.allocations)


def _reclaim(state: CycleState) -> None:
    """Consolidate, then reclaim: the peer's reclaim first looks for another place for its victims, ours does not."""
    _consolidate(state)
    reclaim(state.inputs, state.allocations, state.evictions)


def _requeue_stale(state: CycleState) -> None:
    requeue_stale(state.inputs, state.allocations, state.evictions)


def _preempt(state: CycleState) -> None:
    preempt(state.inputs, state.allocations, state.evictions)


def _consolidate(state: CycleState) -> None:
    consolidate(state.inputs, state.allocations, state.reservations, state.evictions)


#: Where workloads (and parts of them) go, by id.
Places = Mapping[str, tuple[TaskPlacement, ...]]

#: In the id of a part that a workload could still have.
GROWTH = "+"

#: The steps of our cycle that do what one action of the peer does.
ACTIONS: Mapping[str, Callable[[CycleState], None]] = {
    "allocate": _allocate,
    "consolidation": _consolidate,
    "reclaim": _reclaim,
    "preempt": _preempt,
    "stalegangeviction": _requeue_stale,
}


def has_step(case: Case) -> bool:
    """Our cycle has a step for what the case is about; the whole cycle always does something."""
    procedure = case.get("procedure", {})
    return procedure.get("kind") != "single_action" or procedure["actions"][0] in ACTIONS


def play(case: Case) -> tuple[list[Difference], int]:
    """The differences of a case, and how many tasks are on another node. Raises `Untranslatable`."""
    world = world_of(case)
    validate.check(snapshot_of(world))
    procedure = case["procedure"]
    if procedure["kind"] == "single_action":
        _one_action(world, procedure["actions"][0])
        return _compare(world)
    differences: list[Difference] = []
    elsewhere = 0
    for number in range(procedure["rounds_until_match"] + procedure["rounds_after_match"]):
        _one_cycle(world)
        between_rounds(world)
        if number >= procedure["rounds_until_match"] - 1 and not differences:
            differences, elsewhere = _compare(world)
    return differences, elsewhere


def policy_of(world: World) -> Policy:
    """The placement that the case asks for."""
    spread = "spread" in world.case["placement"].values()
    placement = PlacementStrategy.SPREAD if spread else PlacementStrategy.PACK
    procedure = world.case["procedure"]
    stale_after = Seconds(procedure["delay_s"]) if "delay_s" in procedure else Policy().stale_after
    return Policy(
        placement=placement,
        fraction_placement=None,
        moved_after=Seconds(0),
        reserve_after=None,
        stale_after=stale_after,
    )


def _one_action(world: World, action: str) -> None:
    step = ACTIONS.get(action)
    if step is None:
        return
    index = ClusterIndex(snapshot_of(world), policy_of(world))
    state = begin_cycle(index, NOW)
    allocations, reservations, evictions = state.allocations, state.reservations, state.evictions
    if action != "allocate":
        _serve_once(index)
    step(state)
    reprieve_victims(state.inputs, allocations, reservations, evictions)
    _write_down(world, instructions_of(index, allocations, reservations, evictions), allocations.nominated)


def _serve_once(index: ClusterIndex) -> None:
    """Leave elastic work one wanted replica: in an action that takes something, the peer serves each job once."""
    for replicas in index.replicas.wanted.values():
        for replica in list(replicas.values())[1:]:
            index.pending.dequeue(replica)


def _one_cycle(world: World) -> None:
    decision = run_cycle(snapshot_of(world), policy_of(world), NOW)
    # What is promised is pending again before anything is compared.
    _write_down(world, decision.instructions, {})


def _write_down(world: World, instructions: Iterable[Instruction], promised: Places) -> None:
    names = {workload_id(world.case, job["name"]): job for job in world.case["jobs"]}
    # What moves stops here first: it is among those that start there.
    for instruction in sorted(instructions, key=lambda each: not isinstance(each, Shrink)):
        _carry_out(world, names[instruction.workload]["name"], instruction)
    for workload, places in promised.items():
        job = names[workload.split(GROWTH)[0]]["name"]
        for place in places:
            world.put(replace(world.of_group(job, place.group, "Pending")[0], status="Pipelined"))


def _carry_out(world: World, job: str, instruction: Instruction) -> None:
    match instruction:
        case Evict():
            # What only moves counts with the peer as placed already.
            status = "Pipelined" if instruction.reason is EvictReason.CONSOLIDATED else "Releasing"
            for task in world.of_job(job, "Running"):
                world.put(replace(task, status=status))
        case Reserve(placement=place, nominated=nominated):
            world.reserved[job] = (place, nominated)
        case Shrink(placement=place):
            status = "Pipelined" if instruction.reason is EvictReason.CONSOLIDATED else "Releasing"
            for task in _held_at(world, job, place):
                world.put(replace(task, status=status))
        case Admit(placement=place) | Grow(placement=place):
            _place(world, job, place)


def _held_at(world: World, job: str, placement: tuple[TaskPlacement, ...]) -> list[Task]:
    """The running tasks of a job that hold these places, the last ones first."""
    found: list[Task] = []
    for place in placement:
        running = [task for task in world.of_job(job, "Running") if task not in found]
        found.append(next(task for task in reversed(running) if place_of(task) == place))
    return found


def _place(world: World, job: str, placement: tuple[TaskPlacement, ...]) -> None:
    for place in placement:
        found = world.of_group(job, place.group, "Pending")
        if not found:  # It goes on with a task that moves.
            return
        task = found[0]
        world.put(replace(task, status="Binding", node=place.node, devices=place.devices))


def _compare(world: World) -> tuple[list[Difference], int]:
    expected = world.case["expected"]
    differences: list[Difference] = []
    elsewhere = 0
    for task in world.tasks.values():
        wanted = expected["tasks"].get(task.name) or expected["jobs"].get(task.job)
        if wanted is None or "status" not in wanted:
            continue
        if wanted["status"] != task.status:
            differences.append(Difference(what=task.name, expected=wanted["status"], ours=task.status))
        elif _is_elsewhere(task, wanted):
            elsewhere += 1
    return differences, elsewhere


def _is_elsewhere(task: Task, wanted: Case) -> bool:
    return bool(task.node) and "node" in wanted and wanted["node"] != task.node

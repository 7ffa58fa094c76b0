"""The clusters of the cycle benchmark: N nodes of eight GPUs, made without randomness."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant, MiB, MilliGpu
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.queue import BUILD_ROOT, Queue, build_queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Kind, Request, TaskPlacement, Workload

NOW = Instant(1_000_000.0)
#: GPUs of a node.
GPUS = 8
#: What a job of the mixed load asks for: (GPUs of a task, tasks).
MIX = ((1, 1), (1, 1), (1, 1), (2, 1), (1, 1), (4, 1), (1, 2), (1, 1), (8, 1), (1, 1))


def nodes(count: int) -> tuple[Node, ...]:
    """So many nodes of eight GPUs."""
    return tuple(_node(number) for number in range(count))


def _node(number: int) -> Node:
    devices = tuple(
        Device(id=f"n{number:05}-{index}", index=index, model="H100-80GB", memory=MiB(81_920), pool="train")
        for index in range(GPUS)
    )
    return Node(name=f"n{number:05}", devices=devices)


def queue(name: str, gpus: int, parent: str | None = None) -> Queue:
    """A queue with a guaranteed quota of whole GPUs."""
    return Queue(name=name, pool="train", parent=parent, quota=MilliGpu(1000 * gpus))


def job(name: str, queue: str, number: int, gpus: int = 1, tasks: int = 1) -> Workload:
    """A waiting job; `number` is its place in the order of submission."""
    return Workload(
        id=name,
        kind=Kind.TRAINING,
        owner="ann",
        name=name,
        queue=queue,
        request=Request(devices=gpus),
        tasks=tasks,
        min_members=tasks,
        submitted_at=Instant(NOW - 900_000 + number),
    )


def running(workload: Workload, *tasks: tuple[int, int]) -> Workload:
    """It runs, each task on the devices of a node from an index on."""
    size = workload.request.devices
    placement = tuple(
        TaskPlacement(node=f"n{node:05}", devices=tuple(f"n{node:05}-{index + i}" for i in range(size)))
        for node, index in tasks
    )
    started = Instant(workload.submitted_at + 10)
    return replace(workload, state=State.RUNNING, placement=placement, run=1, started_at=started)


def borrowers(count: int, waiting: tuple[Workload, ...], entitled: int) -> Snapshot:
    """All GPUs of `count` nodes run one-GPU jobs of a queue without quota; `waiting` is of one with `entitled` GPUs.

    Older and newer jobs lie mixed over the nodes, as they do in a cluster that has run for a while.
    """
    jobs = tuple(
        running(job(f"b{number:06}", "borrower", number), divmod(number * 7919 % (GPUS * count), GPUS))
        for number in range(GPUS * count)
    )
    queues = (queue("borrower", 0), queue("entitled", entitled))
    return Snapshot(nodes=nodes(count), queues=queues, workloads=(*jobs, *waiting))


def full_cycle(count: int) -> Snapshot:
    """As many one-GPU jobs wait in the entitled queue as there are GPUs, all of which are lent."""
    total = GPUS * count
    return borrowers(count, tuple(job(f"p{number:06}", "entitled", total + number) for number in range(total)), total)


def one_gang(count: int) -> Snapshot:
    """One gang of a tenth of all nodes, whole ones."""
    size = count // 10
    return borrowers(count, (job("gang", "entitled", GPUS * count, gpus=GPUS, tasks=size),), GPUS * size)


def allocation(count: int, jobs: int) -> Snapshot:
    """An empty cluster, two queues, and jobs that all fit."""
    queues = (queue("a", GPUS * count // 2), queue("b", GPUS * count // 2))
    waiting = tuple(job(f"p{number:06}", "ab"[number % 2], number) for number in range(jobs))
    return Snapshot(nodes=nodes(count), queues=queues, workloads=waiting)


def fragmented(count: int, jobs: int, waiting: int) -> Snapshot:
    """One-GPU jobs on every node, and `waiting` of the jobs need a whole one each: others must move for all of them."""
    spread = tuple(
        running(job(f"r{number:06}", "a", number), (number % count, number // count))
        for number in range(jobs - waiting)
    )
    whole = tuple(job(f"w{number:06}", "a", jobs + number, gpus=GPUS) for number in range(waiting))
    return Snapshot(nodes=nodes(count), queues=(queue("a", GPUS * count),), workloads=(*spread, *whole))


def department(number: int) -> str:
    """Name of a top queue."""
    return f"d{number:02}"


def leaf(number: int, leaves: int) -> str:
    """Name of the leaf queue for the n-th job: departments of ten leaves."""
    number %= leaves
    return f"{department(number // 10)}/{number % 10}"


def mixed(count: int, waiting: int, leaves: int, *, full: bool) -> Snapshot:
    """Jobs of mixed sizes, of `leaves` queues in departments of ten, each with its part as quota.

    `full`: every GPU is in use, the older and the newer jobs mixed over the nodes; otherwise nothing runs yet.
    """
    share = GPUS * count // leaves
    queues = [queue(department(d), share * min(10, leaves - 10 * d)) for d in range((leaves + 9) // 10)]
    queues += [queue(leaf(n, leaves), share, department(n // 10)) for n in range(leaves)]
    jobs = _running_mix(count, leaves) if full else []
    for extra in range(waiting):
        gpus, tasks = MIX[extra // leaves % len(MIX)]
        jobs.append(job(f"p{extra:06}", leaf(extra * 11, leaves), GPUS * count + extra, gpus, tasks))
    return Snapshot(nodes=nodes(count), queues=tuple(queues), workloads=tuple(jobs))


def lent(count: int, leaves: int) -> Snapshot:
    """The first half of the leaf queues runs on every GPU, some above their fair shares and some not.

    Each queue has the same quota, in departments of ten. The later queues of the first half run more and have newer
    jobs.
    """
    share = GPUS * count // leaves
    queues = [queue(department(d), share * min(10, leaves - 10 * d)) for d in range((leaves + 9) // 10)]
    queues += [queue(leaf(n, leaves), share, department(n // 10)) for n in range(leaves)]
    borrowing = leaves // 2
    shares = [(n + 1) * (n + 2) / (borrowing * (borrowing + 1)) for n in range(borrowing)]
    jobs = []
    for number in range(GPUS * count):
        owner = next(n for n, part in enumerate(shares) if number < part * GPUS * count or n == borrowing - 1)
        jobs.append(
            running(job(f"r{number:06}", leaf(owner, leaves), number), divmod(number * 7919 % (GPUS * count), GPUS))
        )
    return Snapshot(nodes=nodes(count), queues=tuple(queues), workloads=tuple(jobs))


def owed(count: int, leaves: int, number: int) -> tuple[Workload, ...]:
    """Jobs of mixed sizes that fill the quota of the n-th leaf queue."""
    left, jobs = GPUS * count // leaves, list[Workload]()
    while left:
        gpus, tasks = next(size for size in (*MIX[len(jobs) % len(MIX) :], (1, 1)) if size[0] * size[1] <= left)
        name = f"o{number:03}-{len(jobs):04}"
        jobs.append(job(name, leaf(number, leaves), 2 * GPUS * count + 1000 * number + len(jobs), gpus, tasks))
        left -= gpus * tasks
    return tuple(jobs)


def notebooks(count: int, state: State, *, used: bool) -> tuple[Workload, ...]:
    """So many notebooks that can be suspended, each with half a GPU, two on each of the first devices."""
    last = Instant(NOW if used else NOW - 50_000)
    found = []
    for number in range(count):
        owner = f"u{number:05}"
        notebook = replace(
            half(f"nb{number:05}", build_queue(owner), number),
            kind=Kind.NOTEBOOK,
            owner=owner,
            preemptible=False,
            suspendable=True,
            activity=Activity(busy=used, last_active=last, sampled_at=NOW),
        )
        found.append(replace(running(notebook, divmod(number // 2, GPUS)), state=state))
    return tuple(found)


def notebook_queues(count: int) -> tuple[Queue, ...]:
    """The queues of so many notebooks, each with half a GPU as its fixed quota."""
    share = MilliGpu(500)
    root = Queue(name=BUILD_ROOT, pool="train", quota=MilliGpu(share * count))
    owners = (build_queue(f"u{number:05}") for number in range(count))
    return (root, *(Queue(name=name, pool="train", parent=BUILD_ROOT, quota=share, limit=share) for name in owners))


def half(name: str, queue: str, number: int) -> Workload:
    """A waiting job that needs half a GPU."""
    return replace(job(name, queue, number), request=Request(devices=1, milli_per_device=MilliGpu(500)))


def borrowed(count: int) -> tuple[Workload, ...]:
    """Jobs of half a GPU in all that so many suspended notebooks have lent."""
    return tuple(
        running(half(f"h{number:05}", "borrower", 10 * count + number), divmod(number * 7 % count // 2, GPUS))
        for number in range(count)
    )


def beside_shares(count: int, workloads: tuple[Workload, ...], entitled: int = 0, *, others: bool = True) -> Snapshot:
    """The nodes of so many notebooks with these workloads and, with `others`, as many again with older jobs of one GPU.

    `entitled` is the quota in GPUs of the queue of that name; the other jobs are of a queue without quota.
    """
    size = -(-count // (2 * GPUS))
    whole = tuple(
        running(job(f"b{number:05}", "borrower", number), divmod(GPUS * size + number, GPUS))
        for number in range(GPUS * size if others else 0)
    )
    queues = (*notebook_queues(count), queue("borrower", 0), queue("entitled", entitled))
    return Snapshot(nodes=nodes(2 * size if others else size), queues=queues, workloads=(*workloads, *whole))


def return_of_notebooks(count: int) -> Snapshot:
    """So many suspended notebooks, all of them used again, while jobs use all that they have lent."""
    return beside_shares(count, (*notebooks(count, State.SUSPENDED, used=True), *borrowed(count)))


def return_of_jobs(count: int) -> Snapshot:
    """The same without notebooks: as many jobs of half a GPU, within their quota, wait instead."""
    waiting = (half(f"p{number:05}", "entitled", 20 * count + number) for number in range(count))
    return beside_shares(count, (*borrowed(count), *waiting), count)


def fixed_jobs(count: int, state: State, *, alike: bool) -> Snapshot:
    """Jobs that are not preemptible, half as many as notebooks in that state, which find room only away from these.

    Suspended notebooks have lent their shares to jobs; running ones have not. Jobs that are not `alike` have different
    priorities, and find no room.
    """
    lent = state is State.SUSPENDED
    waiting = tuple(
        replace(
            job(f"p{number:05}", "entitled", 20 * count + number),
            preemptible=False,
            priority=0 if alike else number,
        )
        for number in range(count // 2)
    )
    books = notebooks(count, state, used=not lent)
    return beside_shares(count, (*books, *(borrowed(count) if lent else ()), *waiting), count // 2, others=alike)


def _running_mix(count: int, leaves: int) -> list[Workload]:
    """Fill node after node; seniority jumps about."""
    jobs: list[Workload] = []
    used = [0] * leaves
    for node in range(count):
        index = 0
        while index < GPUS:
            gpus, tasks = MIX[len(jobs) % len(MIX)]
            if gpus * tasks > GPUS - index:
                gpus, tasks = 1, 1
            owner = used.index(min(used))
            used[owner] += gpus * tasks
            number = len(jobs) * 7919 % (GPUS * count)
            places = ((node, index + gpus * task) for task in range(tasks))
            jobs.append(running(job(f"r{len(jobs):06}", leaf(owner, leaves), number, gpus, tasks), *places))
            index += gpus * tasks
    return jobs

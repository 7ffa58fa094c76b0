"""How much of a cluster gets allocated: the experiment of "Beware of Fragmentation" (USENIX ATC '23).

Pods arrive one by one in an order that the seed shuffles, and never leave; who fits nowhere is dropped. The mix that
`fragmentation` goes by is what has arrived so far, the pod itself included.
"""

import argparse
import csv
import gzip
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, MilliGpu
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.workload import Kind, Request, Workload
from jupyter_gq.scheduling.placement import DeviceLedger, RequestMix, View, make_policy
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.policy import PlacementStrategy

from . import table

POOL = "gpu"
#: Pods arrive until they ask for so much of all devices.
ARRIVE = 1.3
#: Figures are taken at these percentages of arrivals.
AT = (100, 130)
FIRST_SEED = 42
#: Where the published figures and the nodes lie, beside the list of pods.
PUBLISHED, NODES = "fgd_expected_alloc.csv", "openb_node_list_gpu_node.csv.gz"
PEER = "06-FGD"


class Pod(NamedTuple):
    """What one pod asks for."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def total(self) -> int:
        """Milli-GPU."""
        return self.gpus * self.milli


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One policy on one list: % allocated by % arrived, and the processor's time for one placement."""

    allocated: dict[int, list[float]]
    seconds: float


def _rows(file: Path, columns: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a table, numbered as an editor does; an error that names the file if a column is missing."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        reader = csv.DictReader(lines)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise SystemExit(f"{file}: there is no column {', '.join(missing)}. It needs {', '.join(columns)}.")
        yield from enumerate(reader, 2)


def _number(file: Path, line: int, row: dict[str, str], column: str) -> int:
    text = row[column]
    if not (text or "").isdecimal():
        raise SystemExit(f"{file}, line {line}: {column} is {text!r}. Write a whole number, at least 0.")
    return int(text)


def read_nodes(file: Path) -> tuple[Node, ...]:
    """The nodes of the cluster."""
    nodes = []
    for line, row in _rows(file, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        cpu, memory, gpus = (_number(file, line, row, column) for column in ("cpu_milli", "memory_mib", "gpu"))
        devices = tuple(
            Device(id=f"{row['sn']}/{index}", index=index, model=row["model"], memory=MiB(0), pool=POOL)
            for index in range(gpus)
        )
        nodes.append(Node(name=row["sn"], devices=devices, cpu_milli=cpu, memory=MiB(memory)))
    return tuple(nodes)


def read_pods(file: Path) -> list[Pod]:
    """The list of pods."""
    pods = []
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    for line, row in _rows(file, (*columns, "gpu_spec")):
        cpu, memory, gpus, milli = (_number(file, line, row, column) for column in columns)
        if gpus and not 0 < milli <= ONE_GPU:
            raise SystemExit(f"{file}, line {line}: gpu_milli is {milli}. Write 1 to {ONE_GPU}.")
        models = tuple(sorted(name for name in row["gpu_spec"].split("|") if name))
        pods.append(Pod(cpu, memory, gpus, milli if gpus else ONE_GPU, models))
    return pods


def arrivals(pods: Sequence[Pod], milli: int, seed: int) -> list[Pod]:
    """The list in another order, then pods drawn from it, as long as they ask for no more than `milli` in all."""
    draw = random.Random(seed)
    order = list(pods)
    draw.shuffle(order)
    found: list[Pod] = []
    asked = 0
    while True:
        pod = order[len(found)] if len(found) < len(order) else draw.choice(pods)
        asked += pod.total
        if asked > milli:
            return found
        found.append(pod)


def workload_of(pod: Pod, number: int) -> Workload:
    """The pod as a workload of one task."""
    request = Request(
        devices=pod.gpus,
        milli_per_device=MilliGpu(pod.milli),
        models=pod.models,
        cpu_milli=pod.cpu,
        memory=MiB(pod.memory),
    )
    name = f"pod-{number}"
    return Workload(
        id=name, kind=Kind.TRAINING, owner="", name=name, queue="", request=request, submitted_at=Instant(number)
    )


def in_other_order(nodes: Sequence[Node], seed: int) -> list[Node]:
    """The same nodes, named in an order of the seed: names decide between equals."""
    order = list(range(len(nodes)))
    random.Random(-seed).shuffle(order)
    return [Node(name=f"{place:06}", devices=nodes[i].devices, cpu_milli=nodes[i].cpu_milli, memory=nodes[i].memory)
            for place, i in enumerate(order)]  # fmt: skip


def run_once(
    nodes: Sequence[Node], pods: Sequence[Pod], placement: PlacementStrategy, seed: int
) -> tuple[list[float], float]:
    """One experiment: % allocated at each of `AT`, and seconds of the processor for one pod."""
    devices = sum(len(node.devices) for node in nodes) * ONE_GPU
    queue = [workload_of(pod, number) for number, pod in enumerate(arrivals(pods, int(ARRIVE * devices), seed))]
    mix = RequestMix()
    ledger = DeviceLedger(in_other_order(nodes, seed), (POOL,), choice=make_policy(placement, mix))
    arrived = allocated = 0
    reached = dict.fromkeys(AT, 0)
    began = time.process_time()
    for workload in queue:
        mix.add(POOL, workload.request, workload.tasks)
        arrived += workload.milli
        if assemble.place(ledger, POOL, workload, View.NOW) is not None:
            allocated += workload.milli
        ledger.commit()
        for percent in AT:
            if arrived * 100 <= percent * devices:
                reached[percent] = allocated
    took = time.process_time() - began
    return [100 * reached[percent] / devices for percent in AT], took / len(queue)


def measure(nodes: Sequence[Node], pods: Sequence[Pod], placement: PlacementStrategy, seeds: Iterable[int]) -> Result:
    """The experiment with each of these seeds."""
    runs = [run_once(nodes, pods, placement, seed) for seed in seeds]
    allocated = {percent: [values[at] for values, _ in runs] for at, percent in enumerate(AT)}
    return Result(allocated=allocated, seconds=statistics.mean(took for _, took in runs))


def published(file: Path, name: str) -> dict[str, dict[int, float]]:
    """The published % allocated on the list of that name, by policy; empty if none are known."""
    if not file.exists():
        return {}
    columns = ("workload", "sc_policy", *(str(percent) for percent in AT))
    return {
        row["sc_policy"]: {percent: float(row[str(percent)]) for percent in AT}
        for _, row in _rows(file, columns)
        if row["workload"] == name
    }


def rows_of(results: dict[PlacementStrategy, Result], peers: dict[str, dict[int, float]]) -> list[table.Row]:
    """A row for each of our policies and figures; the peer is FGD."""
    goal = peers.get(PEER, {})
    rows = []
    for placement, result in results.items():
        for percent in AT:
            rows.append(
                table.Row(
                    case=str(placement),
                    figure=f"allocated % at {percent}",
                    unit="%",
                    ours=round(statistics.mean(result.allocated[percent]), 3),
                    peer=goal.get(percent),
                    goal=goal.get(percent) if placement is PlacementStrategy.FRAGMENTATION else None,
                    wants="more",
                )
            )
    return rows


def show_peers(name: str, peers: dict[str, dict[int, float]]) -> None:
    """The published figures of all policies."""
    if not peers:
        print(f"\nNothing is published for a list named {name}; `peer` is empty.")
        return
    print(f"\nPublished for {name} (mean of 10 seeds; `peer` above is FGD):\n")
    for policy, figures in peers.items():
        print(f"  {policy:<20}" + "".join(f"  {figures[percent]:7.3f} % at {percent}" for percent in AT))


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--pods", type=Path, required=True, metavar="FILE", help="list of pods, .csv or .csv.gz")
    parser.add_argument("--nodes", type=Path, metavar="FILE", help=f"list of nodes (default: {NODES} beside the pods)")
    parser.add_argument(
        "--published", type=Path, metavar="FILE", help=f"what others reached (default: {PUBLISHED} beside the nodes)"
    )
    parser.add_argument("--seeds", type=_count, default=10, help=f"how many, from {FIRST_SEED} on (default: 10)")
    known = [str(placement) for placement in PlacementStrategy]
    parser.add_argument("--policy", action="append", choices=known, help="only this one; may be given several times")
    arguments = parser.parse_args()
    file: Path = arguments.nodes or arguments.pods.parent / NODES
    for each in (arguments.pods, file):
        if not each.exists():
            parser.error(f"there is no file {each}")
    name = arguments.pods.name.removesuffix(".gz").removesuffix(".csv")
    nodes, pods = read_nodes(file), read_pods(arguments.pods)
    if not any(node.devices for node in nodes):
        raise SystemExit(f"{file}: no node has a GPU. Give a list of nodes with a column gpu above 0.")
    if not any(pod.total for pod in pods):
        raise SystemExit(f"{arguments.pods}: no pod asks for a GPU, so the experiment would never end.")
    peers = published(arguments.published or file.parent / PUBLISHED, name)
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    results: dict[PlacementStrategy, Result] = {}
    for policy in arguments.policy or known:
        placement = PlacementStrategy(policy)
        results[placement] = result = measure(nodes, pods, placement, seeds)
        spread = ", ".join(f"{percent}: {min(v):.2f} to {max(v):.2f}" for percent, v in result.allocated.items())
        print(f"{placement}: {result.seconds * 1e3:.3f} ms of processor time for a pod; {spread}", flush=True)
    status = table.show(f"Allocation on {name}, {len(seeds)} seeds", rows_of(results, peers), arguments.json)
    show_peers(name, peers)
    return status


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

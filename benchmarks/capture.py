"""What a job takes along: the plan of a large notebook, the bundling of its files and variables, the kernel meanwhile.

The notebook has 200 cells. They import a project of 2,000 files, and its kernel holds about 1 GB of variables.

* Plan: from the request of the dialog until its answer, through a real server beside a real service: the first one of
  all, the later ones of the same dialog, and the first one of a notebook whose cells ran a moment ago, as a user's have
  who opens the dialog. Beside it: the same sources, each parsed once by Python.
* Bundling: files and pickles are read, divided into parts and hashed. Beside it: the same files, read and hashed whole.
* Kernel: from the request that pickles the variables until the kernel is free again. Beside it, in turn and in the same
  kernel: cloudpickle writes the same variables to files. The goal is the median difference of two neighbours.
"""

import ast
import asyncio
import hashlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

from jupyter_gq.client.environment.kernel import make_carry_call
from jupyter_gq.demo.person import Person
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.lab.carrying.freezing import freeze_pickles
from jupyter_gq.lab.project.freezing import freeze
from jupyter_gq.lab.project.needed import NeededFile
from jupyter_gq.lab.project.plan import CUT_SHORT

from . import table
from .hub import running_hub
from .kernels import start_kernel

_MB = 1_000_000
#: Seconds between the run of cells and the dialog: enough for the server to read what they import.
_UNTIL_DIALOG = 15.0
#: Seconds for which a kernel may pickle.
_TIMEOUT = 600.0
_CELL = """\
# Step {number} of the analysis.
import project.part{part:02}.module{module:02} as step{number}

window{number} = {number} + 1
frame{number} = step{number}.load(window{number}, scale=0.5)
for row in frame{number}:
    if row.value > window{number}:
        totals[row.key] = totals.get(row.key, 0) + row.value * weights[{number} % 8]
print(f"step {number}: {{len(frame{number})}} rows, {{totals}}")
"""
_MODULE = """\
\"\"\"Step {module} of part {part}.\"\"\"

import json
from pathlib import Path

import numpy as np

from ..part{next:02} import module{module:02} as following

TABLE = Path("data") / "table{number:04}.csv"


class Step:
    def __init__(self, key, value):
        self.key, self.value = key, value

    def advance(self, by=1):
        return Step(self.key, self.value + by)


def load(window, scale=1.0):
    rows = np.loadtxt(TABLE, delimiter=",")
    return [Step(str(index), float(row.sum()) * scale) for index, row in enumerate(rows[:window])]


def save(steps, path):
    described = json.dumps({{step.key: step.value for step in steps}})
    return described.encode(), path, following.__name__
"""
_PARTS, _MODULES = 40, 25
#: Variables of a kernel: large arrays, and the many small things of a notebook. `{scale}` is 1 for 1 GB.
_VARIABLES = """\
import numpy as np
arrays = {{}}
for number in range(8):
    globals()[f"array{{number}}"] = np.random.default_rng(number).random(int(13_000_000 * {scale}))
words = [f"word number {{number}}" for number in range(int(1_000_000 * {scale}))]
counts = {{number: number / 3 for number in range(int(1_000_000 * {scale}))}}
blob = bytes(int(100_000_000 * {scale}))
class Net:
    def __init__(self, width):
        self.weights = np.zeros((width, width))
nets = [Net(100) for _ in range(100)]
def train(epochs):
    return [net.weights.sum() for net in nets for _ in range(epochs)]
for number in range(150):
    globals()[f"small{{number}}"] = {{"rows": list(range(200)), "name": f"small {{number}}"}}
"""
_NAMES = (
    *(f"array{number}" for number in range(8)),
    *("words", "counts", "blob", "nets", "train"),
    *(f"small{number}" for number in range(150)),
)
_PLAIN = """\
import os as _os, cloudpickle as _cloudpickle
for _name in {names!r}:
    with open(_os.path.join({folder!r}, _name), "wb") as _file:
        _cloudpickle.dump(globals()[_name], _file, protocol=5)
"""


def write_project(folder: Path) -> list[str]:
    """Write a project of 2,000 files; return the paths of its modules."""
    modules = []
    for part in range(_PARTS):
        package = folder / "project" / f"part{part:02}"
        package.mkdir(parents=True)
        for module in range(_MODULES):
            number = part * _MODULES + module
            path = package / ("__init__.py" if module == 0 else f"module{module:02}.py")
            path.write_text(_MODULE.format(part=part, module=module or 1, next=(part + 1) % _PARTS, number=number))
            modules.append(str(path))
    (folder / "project" / "__init__.py").write_text("")
    (folder / "data").mkdir()
    row = ",".join(f"{number / 7:.5f}" for number in range(20)) + "\n"
    for number in range(_PARTS * _MODULES):
        (folder / "data" / f"table{number:04}.csv").write_text(row * 30)
    return modules


def list_sources() -> list[str]:
    """Return the sources of 200 cells."""
    return [
        _CELL.format(number=number, part=number % _PARTS, module=1 + number % (_MODULES - 1)) for number in range(200)
    ]


def make_request(kernel: str, notebook: str) -> JsonObject:
    """Return the request of the dialog of a notebook: the last of 200 cells is sent, and the others have run."""
    cells: list[JsonObject] = [
        {
            "cell_type": "code",
            "id": f"cell{number}",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(list_sources())
    ]
    return {
        "notebook_path": notebook,
        "kernel_id": kernel,
        "notebook": {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells},
        "targets": [cells[-1]["id"]],
        "prefix": [{"cell_id": cell["id"], "source": cell["source"], "seconds": 1.0} for cell in cells[:-1]],
    }


async def measure_plan(runs: int) -> list[table.Row]:
    """Ask for the plan of the large notebook, several times; return the times."""
    async with running_hub() as hub, Person(hub.hub.url, "ann") as ann:
        home = hub.hub.folder / "homes" / "ann"
        modules = _write_notebook(home / "work")
        _write_notebook(home / "later")
        await ann.start_server("0.25")
        kernels = {name: await ann.start_kernel(f"{name}/large.ipynb") for name in ("work", "later")}
        times: list[float] = []
        parsed: list[float] = []
        for _ in range(runs):
            times.append(await _time_plan(ann, make_request(kernels["work"], "work/large.ipynb")))
            parsed.append(_parse_once(modules))
        request = make_request(kernels["later"], "later/large.ipynb")
        ran: JsonObject = {"cells": [{"cell_id": e["cell_id"], "source": e["source"]} for e in request["prefix"]]}
        await ann.ask_extension("POST", f"kernels/{kernels['later']}/history", ran)
        await asyncio.sleep(_UNTIL_DIALOG)
        after = await _time_plan(ann, request)
        peer = statistics.median(parsed)
    case = f"plan, 200 cells and {2 * len(modules):,} files"
    return [
        table.Row(case=case, figure="the first one", unit="s", ours=times[0], peer=peer, goal=1.0),
        table.Row(case=case, figure="the first one after the cells ran", unit="s", ours=after, peer=peer, goal=1.0),
        table.Row(case=case, figure="p50 of the later ones", unit="s", ours=statistics.median(times[1:]), peer=peer),
    ]


def _write_notebook(folder: Path) -> list[str]:
    """Write a notebook and its project into a new folder; return the paths of the modules."""
    folder.mkdir()
    (folder / "large.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}))
    return write_project(folder)


async def _time_plan(ann: Person, request: JsonObject) -> float:
    """Return the seconds from the request of the dialog until the whole plan is there."""
    began = time.perf_counter()
    plan = await ann.ask_extension("POST", "check", request)
    seconds = time.perf_counter() - began
    assert isinstance(plan, dict)
    _check_plan(plan)
    return seconds


def _check_plan(plan: JsonObject) -> None:
    """Raise `RuntimeError` if the plan is not whole, which would make its time worthless."""
    going, notes = len(plan["files"]["going"]), plan["files"]["notes"]
    if CUT_SHORT in notes or going < 2 * _PARTS * _MODULES or len(plan["prefix"]) != 199:
        raise RuntimeError(f"the plan has {going} files and {len(plan['prefix'])} cells: {notes}")


def _parse_once(modules: list[str]) -> float:
    """Return the seconds in which Python parses the cells and the modules once."""
    began = time.perf_counter()
    for source in list_sources():
        ast.parse(source)
    for path in modules:
        ast.parse(Path(path).read_bytes())
    return time.perf_counter() - began


async def measure_variables(runs: int, scale: float) -> list[table.Row]:
    """Pickle the variables of a kernel as a job takes them along, and plainly, in turn; then bundle the pickles."""
    samples: dict[str, list[_Busy]] = {"ours": [], "plain": []}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gq-capture-")))
        client = await start_kernel(stack, AsyncKernelManager(kernel_name="python3", transport="ipc"), os.environ)
        await _execute(client, _VARIABLES.format(scale=scale))
        calls = {
            "ours": make_carry_call("save", _save_request(folder / "ours")),
            "plain": _PLAIN.format(names=_NAMES, folder=str(folder / "plain")),
        }
        for number in range(runs + 1):
            # Each of the two is the first one in every other turn, and the first turn is not counted.
            for name in ("ours", "plain") if number % 2 else ("plain", "ours"):
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).mkdir()
                busy = await _execute(client, calls[name])
                samples[name] += [busy] if number else []
        report = json.loads((folder / "ours" / "report.json").read_text())
        _check_report(report)
        size = sum(each["bytes"] for each in report["pickles"]) / _MB
        bundling = _measure_freezing(folder / "ours", report, runs)
    case = f"kernel, {len(report['variables'])} variables, {size:,.0f} MB"
    rows: list[table.Row] = []
    for figure, goal in (("seconds", 100), ("cpu", None)):
        mine, other = ([getattr(each, figure) for each in samples[name]] for name in ("ours", "plain"))
        beyond = statistics.median(ours - plain for ours, plain in zip(mine, other, strict=True))
        kind = "" if figure == "seconds" else " of CPU"
        rows += [
            table.Row(
                case=case,
                figure=f"busy{kind}, p50",
                unit="s",
                ours=statistics.median(mine),
                peer=statistics.median(other),
            ),
            table.Row(case=case, figure=f"beyond pickling{kind}", unit="ms", ours=1000 * beyond, goal=goal),
        ]
    return rows + bundling


def _measure_freezing(folder: Path, report: JsonObject, runs: int) -> list[table.Row]:
    """Return the speed at which pickles, and the files of a project, are read, divided and hashed."""
    paths = [folder / each["file"] for each in report["pickles"]]
    with tempfile.TemporaryDirectory(prefix="gq-project-") as name:
        project = Path(name)
        write_project(project)
        files = [
            NeededFile(path=str(path.relative_to(project)), bytes=path.stat().st_size, why="imported", executable=False)
            for path in sorted(project.rglob("*"))
            if path.is_file()
        ]
        known = [project / each.path for each in files]

        def bundle_variables() -> None:
            freeze_pickles(folder, report["pickles"])

        def bundle_files() -> None:
            freeze(project, files, 10**9)

        def bundle_all() -> None:
            bundle_variables()
            bundle_files()

        return [
            *_compare("bundling of the variables", paths, bundle_variables, runs),
            *_compare("bundling of 2,000 files", known, bundle_files, runs),
            *_compare("bundling of both", [*paths, *known], bundle_all, runs, goal=500),
        ]


def _compare(
    case: str, paths: list[Path], bundle: Callable[[], object], runs: int, goal: float | None = None
) -> list[table.Row]:
    """Return the speed of bundling these files beside that of reading and hashing each of them whole."""
    size = sum(path.stat().st_size for path in paths) / _MB
    ours: list[_Busy] = []
    peer: list[_Busy] = []
    for _ in range(runs):
        ours.append(_time(bundle))
        peer.append(_time(lambda: [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]))
    return [
        table.Row(
            case=case,
            figure=figure,
            unit="MB/s",
            ours=size / statistics.median(getattr(each, name) for each in ours),
            peer=size / statistics.median(getattr(each, name) for each in peer),
            goal=goal,
            wants="more",
        )
        for figure, name, goal in (("p50", "seconds", goal), ("p50 of CPU", "cpu", None))
    ]


def _time(work: Callable[[], object]) -> "_Busy":
    """Return the time that this process takes for some work."""
    began, before = time.perf_counter(), time.process_time()
    work()
    return _Busy(seconds=time.perf_counter() - began, cpu=time.process_time() - before)


def _check_report(report: JsonObject) -> None:
    """Raise `RuntimeError` if a variable stays, which would make the time worthless."""
    staying = [each for each in report["variables"] if each["why"]]
    if staying:
        raise RuntimeError(f"{staying[0]['name']} stays: {staying[0]['why']}")


def _save_request(folder: Path) -> JsonObject:
    return {
        "names": list(_NAMES),
        "folder": str(folder),
        "limit": 10**11,
        "cwd": os.getcwd(),
        "makers": {},
        "staying": {},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Busy:
    """The time that a process took for some work: on the clock, and of its processor."""

    seconds: float
    cpu: float


async def _execute(client: AsyncKernelClient, code: str) -> _Busy:
    """Return the time from the request to the reply of silent code; raise `RuntimeError` if it fails."""
    before, began = await _read_cpu(client), time.perf_counter()
    reply = await client.execute(code, silent=True, reply=True, timeout=_TIMEOUT)
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the kernel says: {reply['content']}")
    seconds = time.perf_counter() - began
    return _Busy(seconds=seconds, cpu=await _read_cpu(client) - before)


async def _read_cpu(client: AsyncKernelClient) -> float:
    """Return the processor time that a kernel has used so far."""
    asked = {"cpu": "__import__('time').process_time()"}
    reply = await client.execute("", silent=True, user_expressions=asked, reply=True, timeout=_TIMEOUT)
    return float(reply["content"]["user_expressions"]["cpu"]["data"]["text/plain"])


async def measure(runs: int, scale: float) -> list[table.Row]:
    """Measure all three parts."""
    return [*await measure_plan(runs), *await measure_variables(runs, scale)]


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=5, help="runs of each part (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the variables in GB (default: 1)")
    parser.add_argument("--part", choices=("plan", "variables"), help="measure one part only")
    arguments = parser.parse_args()
    parts = {
        "plan": lambda: measure_plan(arguments.runs),
        "variables": lambda: measure_variables(arguments.runs, arguments.scale),
    }
    if arguments.part:
        rows = asyncio.run(parts[arguments.part]())
    else:
        rows = asyncio.run(measure(arguments.runs, arguments.scale))
    return table.show("What goes along", rows, arguments.json)


if __name__ == "__main__":
    sys.exit(main())

"""The variables of kernels that jobs may take along: captured for the dialog, kept until a job takes them.

Rules
-----
- What is shown is what is sent: the pickles that were checked for the dialog go along, whatever the kernel does since.
- Private: pickles lie in a folder of mode 0700 for an hour at most, until the next capture of the same kernel. Pickles
  that are being sent then stay until they are sent.
- Never values: of a variable, only its name, its type, its size and the reason why it stays leave that folder, except
  as parts to the service.
- Idle kernels only: a request would wait behind a cell that runs, and the variables would change meanwhile.

See docs/decisions/0138-capture-variables-before-sending-and-check-them.md and
docs/decisions/0163-let-variables-stay-where-other-software-cannot-load-them.md.
"""

import asyncio
import json
import shutil
import string
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_core.utils import ensure_async

from jupyter_gq.client.bounds import MOST_CARRIED
from jupyter_gq.client.bundle import explain_invalid_names
from jupyter_gq.client.environment.kernel import make_carry_call
from jupyter_gq.client.models import Carried
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.bundle.bundle import SETUP, Runtime, Step, is_python, read_cells
from jupyter_gq.lab.bundle.software import Software
from jupyter_gq.lab.clock import monotonic
from jupyter_gq.lab.jupyter_parts import Kernels
from jupyter_gq.lab.kernels.watch import KernelWatch
from jupyter_gq.lab.project.freezing import FileService, send_parts
from jupyter_gq.lab.project.plan import ask_for_limits
from jupyter_gq.lab.reading.names import find_free_names, find_makers, find_optional_names
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, SendRequest

from .changed import explain_changed
from .checking import Python, find_unloadable
from .freezing import freeze_pickles
from .kernel_execution import KernelEnded, execute
from .lost import explain_lost
from .models import Captured, CapturedVariable, CaptureRequest
from .packages import find_versions

#: Seconds that a kernel may take to pickle the variables, and for which a capture is kept.
PICKLE_TIMEOUT, KEPT = 120.0, 3600.0
#: Seconds within which the end of a cell is known here, since the page can know it before; and between two looks.
SETTLED, LOOK_EVERY = 2.0, 0.05
#: Most captures for one question: each names variables that a new process could not load, and does without them.
_MOST_ROUNDS = 5
#: Types of variables that lead to files when the target runs, and not already when their cell ran.
_LATER_CODE = frozenset({"function", "type", "str", "pathlib.PosixPath"})
_LEFT_OUT = "You left it out."


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """Variables of one kernel, pickled and checked."""

    id: str
    kernel_id: str
    folder: Path
    report: JsonObject
    #: Sources of the cells that made functions, classes and texts, such as paths, which go along.
    sources: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The variables that a job is to take along, and the cells that make them."""

    names: Sequence[str]
    #: Names that the user adds to those that the cells read.
    added: Sequence[str]
    #: Places in the request's prefix of the cells that make a variable.
    makers: JsonMapping
    #: Names that those cells need, by the variable.
    needed: JsonMapping
    #: Names that may lack: the targets assign them themselves, perhaps after a function that reads them, or run as well
    #: without them.
    may_lack: frozenset[str]
    #: Places in the prefix of the last runs of cells that always run.
    setup: frozenset[int]

    @classmethod
    def read(cls, request: CaptureRequest, steps: Sequence[Step]) -> "Wanted":
        """Return the variables that the target cells read and those that the user adds, with the cells that make them.

        `steps` are the cells that would run. Makers are looked for in the prefix of the request only.
        """
        targets = [step.source for step in steps if step.why == "target"]
        sources = [cell.source for cell in request.prefix]
        free, makers = [find_free_names([source]) for source in sources], find_makers(sources)
        needed = {name: sorted({each for place in places for each in free[place]}) for name, places in makers.items()}
        tagged = {cell.id for cell in read_cells(request.notebook)[0].values() if SETUP in cell.tags}
        setup = {step.cell_id: step.index for step in steps if step.index is not None and step.cell_id in tagged}
        of_setup = [name for place in setup.values() for name in free[place]]
        names = dict.fromkeys([*find_free_names(targets), *request.more_variables, *of_setup])
        return cls(
            names=list(names),
            makers=makers,
            needed=needed,
            added=tuple(request.more_variables),
            may_lack=frozenset([*find_makers(targets), *find_optional_names(targets)]).difference(
                request.more_variables
            ),
            setup=frozenset(setup.values()),
        )

    def find_makers(self, name: str) -> list[int]:
        """Return the places of the cells that make a variable; those with `from x import *` if no cell names it."""
        places: list[int] = self.makers.get(name) or self.makers.get("*", [])
        return places


class Captures:
    """The captures of this server's kernels."""

    def __init__(self, kernels: Kernels, watch: KernelWatch, environ: Mapping[str, str], max_bytes: int) -> None:
        self._kernels, self._watch, self._environ, self._max_bytes = kernels, watch, environ, max_bytes
        self._kept: dict[str, Capture] = {}
        #: Number of requests that send the pickles of a capture now, by its id.
        self._held: Counter[str] = Counter()

    def close(self) -> None:
        """Delete all captures."""
        for capture in list(self._kept.values()):
            self._forget(capture)

    async def take(
        self, service: FileService, request: CaptureRequest, steps: Sequence[Step], runtime: Runtime
    ) -> Captured:
        """Pickle and check the variables that the targets need; return their names, sizes and reasons.

        Raises `RefusedRequest` if the kernel cannot be asked, or if an added name cannot be that of a variable.
        """
        if why := explain_invalid_names(request.more_variables):
            raise RefusedRequest("invalid_request", f"{why[0].upper()}{why[1:]}.", field="more_variables")
        kernel_id = await self._await_idle_kernel(request, runtime)
        store = await ask_for_limits(service)
        if store is None:
            raise _refuse("The scheduler service takes no variables along.")
        limit = min(self._max_bytes, store.max_job_bytes)
        wanted = await asyncio.to_thread(Wanted.read, request, steps)
        capture = Capture(
            id=uuid.uuid4().hex, kernel_id=kernel_id, folder=Path(tempfile.mkdtemp(prefix="gq-variables-")), report={}
        )
        try:
            staying = dict.fromkeys(request.left_out_variables, _LEFT_OUT)
            capture.report.update(await self._save_and_check(capture, wanted, staying, runtime, limit))
        except BaseException:
            shutil.rmtree(capture.folder, ignore_errors=True)
            raise
        capture.sources.extend(_list_later_code(capture, wanted, request))
        self._keep(capture)
        captured = _describe(capture, wanted)
        names = [each.name for each in captured.variables if each.why]
        lost = await asyncio.to_thread(explain_lost, names, captured.replayed, steps)
        changed = await asyncio.to_thread(explain_changed, capture.report, steps)
        return captured.model_copy(update={"notes": [*captured.notes, *lost, *changed]})

    async def send(self, service: FileService, request: SendRequest, software: Software) -> Carried | None:
        """Send the pickles of the capture that a request names; return their entry in the manifest, None without one.

        Raises `RefusedRequest` if there is no such capture, if it needs a GPU and the job has none, or if the job runs
        in another image.
        """
        if request.capture is None:
            return None
        _refuse_image(software)
        capture = self._kept.get(request.capture)
        if capture is None:
            raise _refuse("The variables that should go along are not here any more. Open the dialog again.")
        held = [each["name"] for each in capture.report["variables"] if each["gpu"] and not each["why"]]
        if held and not _has_gpu(request):
            raise _refuse(
                f"{held[0]} is in the memory of a GPU, and this job has none. Ask for a GPU, move it with .cpu(), or "
                "leave it out."
            )
        report = capture.report
        try:
            with self._hold(capture):
                frozen, parts = await asyncio.to_thread(freeze_pickles, capture.folder, report["pickles"])
                await send_parts(service, parts)
        except OSError as error:
            raise _refuse(f"The variables cannot be read: {error.strerror or error}. Open the dialog again.") from error
        return Carried(python=report["python"], packages=report["packages"], pickles=frozen)

    def list_sources(self, request: CellsRequest) -> list[str]:
        """Return the sources of cells that do not run in the job, but made functions and paths that go along.

        What these functions import or open, and where these paths lead, is needed in the job as well.
        """
        capture = self._kept.get(request.capture or "")
        return list(capture.sources) if capture is not None else []

    async def _await_idle_kernel(self, request: CaptureRequest, runtime: Runtime) -> str:
        """Return the id of the kernel with the variables, once its last cell has ended.

        Raises `RefusedRequest` if the kernel cannot be asked, or is still busy after a moment.
        """
        if not is_python(runtime.kernel):
            raise _refuse("Only variables of Python kernels can go along. The cells before run in the job instead.")
        _refuse_image(runtime.software)
        if request.kernel_id is None or request.kernel_id not in self._kernels:
            raise _refuse("No kernel runs for this notebook, so it has no variables yet.")
        deadline = monotonic() + SETTLED
        while self._is_busy(request.kernel_id):
            if monotonic() > deadline:
                raise _refuse(
                    "The kernel is busy, and its variables may change meanwhile. Wait until the cell has ended."
                )
            await asyncio.sleep(LOOK_EVERY)
        return request.kernel_id

    def _is_busy(self, kernel_id: str) -> bool:
        """Return whether a kernel is known to run code."""
        return any(state.id == kernel_id and state.busy for state in self._watch.get_activity())

    async def _save_and_check(
        self, capture: Capture, wanted: Wanted, staying: dict[str, str], runtime: Runtime, limit: int
    ) -> JsonObject:
        """Return the report of a capture whose pickles all can be loaded."""
        python = None
        for _ in range(_MOST_ROUNDS):
            report = await self._save(capture, wanted, staying, runtime.cwd, limit)
            if python is None:
                python = self._find_python(capture.kernel_id, str(report["executable"]), runtime)
            report["packages"] = await asyncio.to_thread(find_versions, report["modules"], report["path"])
            bad = await find_unloadable(python, capture.folder, report)
            if not bad:
                _check_count(report)
                return report
            for each in report["pickles"]:
                if each["file"] in bad:
                    staying.update(dict.fromkeys(each["names"], bad[each["file"]]))
        raise _refuse(
            "The variables could not be loaded in a new process. The cells before can run in the job instead."
        )

    async def _save(
        self, capture: Capture, wanted: Wanted, staying: dict[str, str], cwd: str, limit: int
    ) -> JsonObject:
        """Let the kernel pickle the variables; return its report, or raise `RefusedRequest` if there is none."""
        for left in capture.folder.iterdir():
            left.unlink()
        request: JsonObject = {
            "names": wanted.names,
            "folder": str(capture.folder),
            "limit": limit,
            "cwd": cwd,
            "makers": wanted.needed,
            "staying": staying,
        }
        try:
            answered = await execute(self._kernels, capture.kernel_id, make_carry_call("save", request), PICKLE_TIMEOUT)
        except KernelEnded as error:
            raise _refuse(
                "The kernel ended while it pickled its variables. The cells before can run instead."
            ) from error
        except OSError as error:
            raise _refuse(f"{error} Its variables cannot be read from here.") from error
        if not answered:
            if (capture.folder / "began.json").exists():
                await ensure_async(self._kernels.interrupt_kernel(capture.kernel_id))
            raise _refuse(f"The kernel has not pickled its variables within {PICKLE_TIMEOUT:.0f} s.")
        try:
            report: JsonObject = json.loads((capture.folder / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _refuse("The kernel could not pickle its variables. It may lack access to this machine.") from error
        return report

    def _find_python(self, kernel_id: str, executable: str, runtime: Runtime) -> Python:
        """Return the Python with which the job runs, and its environment.

        `executable` is the Python of the running kernel. Raises `RefusedRequest` if the job has another kernel, and
        that one's Python is not known.
        """
        variables = self._kernels.get_kernel(kernel_id).kernel_spec.env
        if runtime.software.name:
            executable, variables = runtime.kernel.argv[0], runtime.software.variables
            if not Path(executable).name.startswith("python"):
                raise _refuse(
                    f"The kernel {quoted(runtime.kernel.name)} is not started by Python itself. "
                    "So it is not known whether it can load the variables. The cells before can run instead."
                )
        own = {name: string.Template(value).safe_substitute(self._environ) for name, value in variables.items()}
        return Python(executable=executable, environment={**self._environ, **own})

    def _keep(self, capture: Capture) -> None:
        """Keep a capture for a while, in place of an earlier one of its kernel."""
        for earlier in [each for each in self._kept.values() if each.kernel_id == capture.kernel_id]:
            self._forget(earlier)
        self._kept[capture.id] = capture
        asyncio.get_running_loop().call_later(KEPT, self._forget, capture)

    def _forget(self, capture: Capture) -> None:
        """Offer a capture no more, and delete its pickles once no request sends them."""
        self._kept.pop(capture.id, None)
        if not self._held[capture.id]:
            del self._held[capture.id]
            shutil.rmtree(capture.folder, ignore_errors=True)

    @contextmanager
    def _hold(self, capture: Capture) -> Iterator[None]:
        """Keep the pickles of a capture on the disk, although it may be forgotten meanwhile."""
        self._held[capture.id] += 1
        try:
            yield
        finally:
            self._held[capture.id] -= 1
            if capture.id not in self._kept:
                self._forget(capture)


def _check_count(report: JsonObject) -> None:
    """Raise `RefusedRequest` if more variables go along than a job takes."""
    count = sum(len(each["names"]) for each in report["pickles"])
    if count > MOST_CARRIED:
        raise _refuse(
            f"The cells need {count:,} variables, and a job takes at most {MOST_CARRIED:,} along. Put them into a list "
            "or a dict, or let the cells before run instead."
        )


def _describe(capture: Capture, wanted: Wanted) -> Captured:
    """Return what the dialog shows of a capture."""
    variables = [
        CapturedVariable(
            name=each["name"], type=each["type"], bytes=each["bytes"], on_gpu=bool(each["gpu"]), why=each["why"]
        )
        for each in capture.report["variables"]
        if each["type"] or each["name"] not in wanted.may_lack
    ]
    staying = [each.name for each in variables if each.why]
    unmade = [name for name in staying if not wanted.find_makers(name)]
    notes = [f"No cell is known that makes {', '.join(unmade)}, so the job does not have it."] if unmade else []
    known = {each["name"] for each in capture.report["variables"]}
    anyway = [name for name in wanted.added if name not in known]
    notes += [f"Each job has {', '.join(anyway)} of its own, so nothing is taken along for that."] if anyway else []
    return Captured(
        id=capture.id,
        variables=variables,
        bytes=sum(each["bytes"] for each in capture.report["pickles"]),
        replayed=sorted(wanted.setup.union(*(wanted.find_makers(name) for name in staying))),
        notes=notes,
    )


def _list_later_code(capture: Capture, wanted: Wanted, request: CaptureRequest) -> list[str]:
    """Return the sources of the cells whose functions and texts go along: their files may be needed later."""
    going = [each["name"] for each in capture.report["variables"] if not each["why"] and each["type"] in _LATER_CODE]
    places = {place for name in going for place in wanted.find_makers(name)}
    return [request.prefix[place].source for place in sorted(places)]


def _has_gpu(request: SendRequest) -> bool:
    """Return whether the job asks for a GPU or a part of one; what is no number is for the service to refuse."""
    try:
        return request.gpu_memory is not None or float(request.gpus) > 0
    except ValueError:
        return True


def _refuse_image(software: Software) -> None:
    """Raise `RefusedRequest` if the job runs in another image."""
    if software.is_image:
        raise _refuse(
            f"Variables cannot go along into the image {quoted(software.name)}: its Python and packages are not known "
            "here. The cells before run in the job instead."
        )


def _refuse(why: str) -> RefusedRequest:
    return RefusedRequest("no_variables", why, field="capture")

"""The story of the README, played by three users against the real Hub, service and kernels.

Each step says what must happen. A step that goes wrong ends the story with what happened instead.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jupyter_gq.client.connection.http import ServiceError
from jupyter_gq.domain.errors import DefectError
from jupyter_gq.domain.json_types import JsonObject

from .clock import monotonic
from .person import Person, ProductRefused
from .processes import FIRST_NOTEBOOK as NOTEBOOK
from .processes import DemoHub

T = TypeVar("T")

#: Epochs of the training: enough to be paused in between, and few enough to watch.
EPOCHS = 100
#: Idle rule of the story: seconds instead of half an hour.
IDLE_RULE = {"after": 14, "warning": 8, "grace": 4}
#: Cell of the job that borrows an idle share: it leaves as soon as it has to.
BORROWER = "import time, jupyter_gq\nwhile not jupyter_gq.should_stop():\n    time.sleep(0.2)"
#: Cell that uses a notebook until its kernel is interrupted.
BUSY = "import time\ntry:\n    time.sleep(3600)\nexcept KeyboardInterrupt:\n    pass"
#: Timeout of a step in seconds. A wait ends as soon as its condition holds, so a long timeout costs time only if a step
#: fails. It must be long enough for a machine with two slow cores.
STEP_TIMEOUT = 600.0


class StepFailed(DefectError):
    """A step of the story that did not happen as it must."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepReport:
    """A step that happened."""

    #: Seconds since the start of the story.
    at: float
    #: Duration in seconds.
    took: float
    #: Name of the user.
    who: str
    #: Description of what the user saw.
    what: str


@dataclass(kw_only=True)
class Story:
    """The scripted tour of the demo: Ann, Bob and Carol use a Hub step by step, and each step is checked."""

    hub: DemoHub
    #: Called with each step once it has happened.
    report: Callable[[StepReport], None]
    #: Steps that have happened.
    steps: list[StepReport] = field(default_factory=list)
    _began: float = 0.0
    _step_began: float = 0.0

    async def play(self) -> None:
        """Play all steps; raise `StepFailed` at the first step that goes wrong."""
        self._began = self._step_began = monotonic()
        url = self.hub.url
        async with Person(url, "ann") as ann, Person(url, "bob") as bob, Person(url, "carol") as carol:
            await self._start_two_notebooks_on_one_device(ann, bob)
            await self._refuse_a_server_beyond_the_quota(bob)
            job = await self._send_a_cell_that_borrows(ann)
            await self._stop_the_server_of_a_running_job(ann, job)
            await self._reclaim_and_continue(ann, bob, job)
            await self._take_an_idle_share(ann, bob, carol)
            await self._check_the_result(ann, job)
            await self._lend_an_idle_share(ann, carol)

    # --- steps --------------------------------------------------------------------------------------------------

    async def _start_two_notebooks_on_one_device(self, ann: Person, bob: Person) -> None:
        """Start Ann's notebook with 0.5 GPU and Bob's with 0.25 GPU; check that both get the same device."""
        page = await ann.options_page()
        expect('value="0.5"' in page and 'value="0.25"' in page, "the options page offers 0.25 and 0.5", page)
        self._record_step("ann", "The page offers CPU only, 0.25 and 0.5 GPU")
        await ann.start_server("0.5")
        anns = await get_notebook(ann)
        self._record_step("ann", f"Ann's notebook has 0.5 GPU of {anns['devices'][0]}")
        await bob.start_server("0.25")
        bobs = await get_notebook(bob)
        expect(bobs["devices"] == anns["devices"], "both notebooks are on one device", bobs)
        self._record_step("bob", "Bob's notebook has 0.25 of the same GPU")

    async def _refuse_a_server_beyond_the_quota(self, bob: Person) -> None:
        """Check that a second server of Bob's is refused, with the numbers of the quota."""
        try:
            await bob.start_server("0.25", "second")
        except ProductRefused as refusal:
            expect(
                refusal.status == 403 and "0.25" in refusal.message,
                "it is a 403 with the numbers",
                refusal.message,
            )
            self._record_step("bob", f"A second one is refused: {refusal.message}")
        else:
            raise StepFailed("Bob got a second server beyond Bob's fixed quota.")

    async def _send_a_cell_that_borrows(self, ann: Person) -> str:
        """Send a cell of Ann's to training on 1 GPU, of which the queue borrows 0.5; return the id of the job."""
        notebook = set_epochs(await ann.read_notebook(NOTEBOOK))
        kernel = await ann.start_kernel(NOTEBOOK)
        for cell in code_cells(notebook)[:2]:
            await ann.run_cell(kernel, cell["source"])
        job = await ann.send(
            notebook, NOTEBOOK, kernel, find_training_cell(notebook), name="digits", queue="vision", gpus="1"
        )
        running = await poll_until(
            lambda: ann.job(job["id"]), lambda found: found["phase"] == "running" and found["last_seq"] > 3
        )
        expect(running["over_quota"] == "0.5", "the job is 0.5 over its queue's quota", running)
        self._record_step("ann", "Ann's cell trains on 1 GPU, 0.5 of it borrowed; its output arrives")
        return str(job["id"])

    async def _stop_the_server_of_a_running_job(self, ann: Person, job: str) -> None:
        """Stop Ann's server; check that the job goes on."""
        before = (await ann.job(job))["last_seq"]
        await ann.stop_server()
        await poll_until(lambda: ann.job(job), lambda found: found["phase"] == "running" and found["last_seq"] > before)
        self._record_step("ann", "Ann closes the server; the job goes on")

    async def _reclaim_and_continue(self, ann: Person, bob: Person, job: str) -> None:
        """Check that Bob's job pauses Ann's by reclaiming its quota, and that Ann's job continues afterwards."""
        notebook = set_epochs(await bob.read_notebook(NOTEBOOK), epochs=20)
        kernel = await bob.start_kernel(NOTEBOOK)
        cell = find_training_cell(notebook)
        async with look_for(ann, "job", lambda told: (told["id"], told["phase"]) == (job, "paused")) as pause:
            bobs = await bob.send(notebook, NOTEBOOK, kernel, cell, name="check", queue="nlp", gpus="0.5")
            paused = await pause
        expect(paused["pause"]["way"] == "suspended", "Ann's job is suspended, since it has GPU memory", paused)
        self._record_step("ann", f"{paused['sentence']} {paused['pause']['sentence']}")
        await poll_until(lambda: bob.job(bobs["id"]), lambda found: found["phase"] in {"running", "done"})
        self._record_step("bob", "Bob's cell runs on the 0.5 GPU that nlp is guaranteed")
        done = await poll_until(lambda: bob.job(bobs["id"]), lambda found: found["phase"] in {"done", "failed"})
        expect(done["phase"] == "done", "Bob's job succeeds", done)
        self._record_step("bob", "Bob's job is done")
        resumed = await poll_until(lambda: ann.job(job), lambda found: found["phase"] in {"running", "done"})
        expect(resumed["run"] == 1, "Ann's job goes on with its first run", resumed)
        before = paused["last_seq"]
        resumed = await poll_until(lambda: ann.job(job), lambda found: found["last_seq"] > before)
        self._record_step("ann", f"Ann's continues with the same kernel: {(resumed['progress'] or {}).get('text', '')}")

    async def _take_an_idle_share(self, ann: Person, bob: Person, carol: Person) -> None:
        """Check that Carol gets Bob's idle share, and that Ann's notebook keeps its share while a silent cell runs."""
        await ann.start_server("0.5")
        kernel = await ann.start_kernel(NOTEBOOK)
        async with run_alongside(ann.run_cell(kernel, "import time; time.sleep(3600)")) as silent:
            self._record_step("ann", "Ann is back, and a silent cell is busy in the kernel: the notebook is not idle")
            await poll_until(lambda: get_notebook(bob), lambda found: found["idle_since"] is not None)
            await self._give_bobs_share_to_carol(bob, carol)
            anns = await get_notebook(ann)
            expect(anns["phase"] == "running" and anns["warning"] is None, "a busy notebook keeps its share", anns)
            expect(not silent.done(), "Ann's silent cell runs all the while", silent)

    async def _give_bobs_share_to_carol(self, bob: Person, carol: Person) -> None:
        """Start a server of Carol's; check that Bob is warned and then told why the share was taken."""
        async with look_for(bob, "notebook", is_warned) as warning, run_alongside(carol.start_server("0.5")) as start:
            warned = await warning
            self._record_step("bob", f"Bob's lab counts down: {warned['warning']['sentence']}")
            await start
        self._record_step("carol", "Carol waited; Carol's notebook starts with 0.5 GPU")
        told = (await bob.ask_service("GET", "me"))["last_eviction"]
        expect(told is not None and told["reason"] == "IDLE", "Bob is told why the share went", told)
        self._record_step("bob", told["sentence"])

    async def _check_the_result(self, ann: Person, job: str) -> None:
        """Check that Ann's job succeeds and that the executed notebook has the plot."""
        done = await poll_until(lambda: ann.job(job), lambda found: found["phase"] in {"done", "failed"})
        expect(done["phase"] == "done", "Ann's job succeeds", done)
        notebook = await ann.ask_service("GET", f"jobs/{job}/notebook")
        pictures = [
            out for cell in code_cells(notebook) for out in cell["outputs"] if "image/png" in out.get("data", {})
        ]
        expect(bool(pictures), "the executed notebook has the plot", notebook)
        self._record_step("ann", "The finished plot is in Ann's notebook")

    async def _lend_an_idle_share(self, ann: Person, carol: Person) -> None:
        """Check that Carol's idle share is lent to a job of Ann's, and that it is back when Carol runs a cell."""
        await self._let_jobs_borrow_from_notebooks(ann)
        anns, options = await ann.start_kernel(NOTEBOOK), {"name": "borrower", "queue": "vision", "gpus": "0.5"}
        kernel = await carol.start_kernel(NOTEBOOK)
        await wait_for_end_of_use(
            carol, carol.run_cell(kernel, "import jupyter_gq; jupyter_gq.simulate_memory(4_000); answer = 41")
        )
        async with look_for(carol, "notebook", is_warned) as warning:
            async with keep_in_use(carol, kernel):
                borrower = await ann.send(make_notebook(BORROWER), NOTEBOOK, anns, "cell", **options)
            warned = await warning
        self._record_step("carol", f"Carol's lab counts down: {warned['warning']['sentence']}")
        lent = await poll_until(lambda: get_notebook(carol), lambda found: found["phase"] == "suspended")
        expect((lent["suspension"]["memory_mib"] or 0) >= 4_000, "the memory has left the GPU", lent)
        self._record_step("carol", lent["sentence"])
        running = await poll_until(lambda: ann.job(borrower["id"]), lambda found: found["phase"] == "running")
        self._record_step("ann", running["sentence"])
        await self._bring_the_share_back(ann, carol, kernel, borrower["id"])

    async def _let_jobs_borrow_from_notebooks(self, ann: Person) -> None:
        """Give notebooks and jobs one pool in the configuration file; wait until the service has taken that up."""
        with self.hub.config.open("a") as config:
            config.write('c.Pools.train = "build"\n')

        async def pool_of_vision() -> str:
            queues = (await ann.ask_service("GET", "queues"))["queues"]
            return str(next(queue["pool"] for queue in queues if queue["name"] == "vision"))

        await poll_until(pool_of_vision, lambda pool: pool == "build")
        self._record_step("admin", "The administrator lets jobs use the GPU of the notebooks")

    async def _bring_the_share_back(self, ann: Person, carol: Person, kernel: str, borrower: str) -> None:
        """Run a cell of Carol's; check that it finds its variable, and that Ann's job is paused and goes on later."""
        printed = await carol.run_cell(kernel, "print(answer + 1)")
        expect(printed == "42\n", "the variable is still there", printed)
        self._record_step("carol", "Carol runs a cell: the share comes back, and the variables are still there")
        paused = await poll_until(lambda: ann.job(borrower), lambda found: found["phase"] == "paused")
        self._record_step("ann", paused["sentence"])
        await carol.stop_server()
        resumed = await poll_until(lambda: ann.job(borrower), lambda found: found["phase"] == "running")
        expect(resumed["run"] == 2, "Ann's job runs for the second time", resumed)
        self._record_step("ann", "Carol stops the server, and Ann's job goes on by itself")

    def _record_step(self, who: str, what: str) -> None:
        """Append a report of a step that has just happened, with its time and duration, and pass it to `report`."""
        now = monotonic()
        step = StepReport(at=now - self._began, took=now - self._step_began, who=who, what=what)
        self._step_began = now
        self.steps.append(step)
        self.report(step)


def expect(condition: bool, expected: str, found: object) -> None:
    """Raise `StepFailed` with what was expected and what was found, unless the condition holds."""
    if not condition:
        raise StepFailed(f"Expected that {expected}, but found: {str(found)[:1500]}")


@asynccontextmanager
async def run_alongside(work: Coroutine[object, None, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Run a coroutine as a task while the block lasts, and cancel it at the end; yield the task."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # an error of the story itself matters more


@asynccontextmanager
async def look_for(
    person: Person, kind: str, is_expected: Callable[[JsonObject], bool]
) -> AsyncIterator["asyncio.Task[JsonObject]"]:
    """Look for a change of a user's jobs (`kind` "job") or notebooks ("notebook") from the beginning of the block.

    Yield the task that returns the first view that is as expected. The service tells each change, so that a state is
    found even if it is over before the story looks. The task raises `StepFailed` after `STEP_TIMEOUT` seconds,
    or if the service refuses or goes away.
    See docs/decisions/0467-hear-of-states-that-pass-by.md.
    """
    listens = asyncio.Event()

    async def find() -> JsonObject:
        try:
            async with asyncio.timeout(STEP_TIMEOUT), aclosing(person.changes(listens.set)) as changes:
                views = (change.data async for change in changes if change.kind == kind)
                return await anext(view async for view in views if is_expected(view))
        except (TimeoutError, ServiceError) as error:
            raise StepFailed(f"{person.name} was not told of the expected change of a {kind}: {error!r}") from error
        finally:
            listens.set()

    async with run_alongside(find()) as found:
        await listens.wait()
        yield found


async def poll_until(fetch: Callable[[], Awaitable[T]], is_expected: Callable[[T], bool]) -> T:
    """Fetch a value again and again until it is as expected; return it.

    Raise `StepFailed` with the last value after `STEP_TIMEOUT` seconds.
    """
    found: T | None = None
    try:
        async with asyncio.timeout(STEP_TIMEOUT):
            while True:
                found = await fetch()
                if is_expected(found):
                    return found
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        raise StepFailed(f"Waited {STEP_TIMEOUT:.0f} s; the last value was: {str(found)[:1500]}") from error


async def get_notebook(person: Person) -> JsonObject:
    """Return a user's notebook server as the service describes it; raise `StepFailed` if there is none."""
    notebooks = (await person.ask_service("GET", "notebooks"))["notebooks"]
    if not notebooks:
        raise StepFailed(f"{person.name} has no notebook.")
    return dict(notebooks[0])


def is_warned(notebook: JsonObject) -> bool:
    """Return whether the view of a notebook has a countdown."""
    return notebook["warning"] is not None


async def wait_for_end_of_use(person: Person, use: Awaitable[object]) -> None:
    """Await the use of a user's notebook, and then wait until the service knows it: servers report every few seconds.

    Until then the service may believe that the notebook was idle for long, and lend its share without a countdown.
    """
    before = (await get_notebook(person))["idle_since"]
    await use
    await poll_until(lambda: get_notebook(person), lambda found: found["idle_since"] not in {None, before})


@asynccontextmanager
async def keep_in_use(person: Person, kernel: str) -> AsyncIterator[None]:
    """Keep a cell running in an idle notebook's kernel while the block lasts.

    What is sent in the block finds the notebook in use. So its owner is always warned before the share is lent: the
    share of a notebook that has been idle for the whole time of the rule would be lent at once.
    """
    async with run_alongside(person.run_cell(kernel, BUSY)) as cell:
        await poll_until(lambda: get_notebook(person), lambda found: found["idle_since"] is None)
        yield
        await person.interrupt_kernel(kernel)
        await cell


def code_cells(notebook: JsonObject) -> list[JsonObject]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def find_training_cell(notebook: JsonObject) -> str:
    """Return the id of the first cell that calls `should_stop`, which is the one that trains."""
    return next(str(cell["id"]) for cell in code_cells(notebook) if "should_stop()" in cell["source"])


def make_notebook(source: str) -> JsonObject:
    """Return a notebook with one code cell, whose id is "cell"."""
    cell: JsonObject = {"cell_type": "code", "id": "cell", "metadata": {}, "source": source}
    cell |= {"outputs": [], "execution_count": None}
    kernel = {"name": "python3", "display_name": "Python 3"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]}


def set_epochs(notebook: JsonObject, epochs: int = EPOCHS) -> JsonObject:
    """Set the number of epochs in the notebook's code cells, in place; return the notebook."""
    for cell in code_cells(notebook):
        source = "".join(cell["source"])  # a file keeps a list of lines, the contents API one text
        lines = (f"EPOCHS = {epochs}" if line.startswith("EPOCHS = ") else line for line in source.splitlines())
        cell["source"] = "\n".join(lines)
    return notebook


def write_story_config(base: Path, folder: Path, idle_rule: Mapping[str, float] = IDLE_RULE) -> Path:
    """Write a configuration of the Hub to `folder` that loads `base` and sets the idle rule; return its path.

    The devices are simulated on every machine: the story needs two, and a driver that can suspend programs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "jupyterhub_config_story.py"
    rule = 'c.SimulatedDevices.mode = "always"\n'
    rule += "".join(f"c.IdlePolicy.{name} = {value}\n" for name, value in idle_rule.items())
    config.write_text(f"c = get_config()  # noqa: F821\nload_subconfig({str(base)!r})  # noqa: F821\n{rule}")
    return config

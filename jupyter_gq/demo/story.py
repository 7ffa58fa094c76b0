"""The story of the README, played by three people against the real hub, service and kernels.

Each step says what must be seen; one that is not seen ends the story with what was seen instead.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jupyter_gq.domain.errors import DefectError
from jupyter_gq.domain.json_types import JsonObject

from .clock import monotonic
from .person import Person, ProductRefused
from .processes import FIRST_NOTEBOOK as NOTEBOOK
from .processes import DemoHub

T = TypeVar("T")

#: Long enough to be paused in the middle, short enough to watch.
EPOCHS = 240
#: The story's own idle rule: seconds in place of half an hour.
IDLE_RULE = {"after": 14, "warning": 8, "grace": 4}
#: Seconds to look for a step. Every wait ends as soon as it is seen, so this costs time only where something is broken;
#: a machine with two slow cores must not end the story.
PATIENCE = 300.0


class NotSeen(DefectError):
    """A step of the story that did not happen as it must."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A step that happened."""

    #: Seconds since the story began.
    at: float
    #: Seconds that the step took.
    took: float
    who: str
    what: str


@dataclass(kw_only=True)
class Story:
    """Plays the steps in order; `tell` hears of each one as it is seen."""

    hub: DemoHub
    tell: Callable[[Seen], None]
    seen: list[Seen] = field(default_factory=list)
    _began: float = 0.0
    _step_began: float = 0.0

    async def play(self) -> None:
        """Play it to its end; raise `NotSeen` at the first step that is not seen."""
        self._began = self._step_began = monotonic()
        url = self.hub.url
        async with Person(url, "ann") as ann, Person(url, "bob") as bob, Person(url, "carol") as carol:
            await self._notebooks_get_their_fractions(ann, bob)
            await self._a_server_beyond_the_quota_is_refused(bob)
            job = await self._a_cell_is_sent_and_borrows(ann)
            await self._its_server_may_stop(ann, job)
            await self._the_owner_reclaims_and_the_job_comes_back(ann, bob, job)
            await self._an_idle_share_goes_to_who_waits(ann, bob, carol)
            await self._the_result_is_there(ann, job)

    # --- steps --------------------------------------------------------------------------------------------------

    async def _notebooks_get_their_fractions(self, ann: Person, bob: Person) -> None:
        page = await ann.options_page()
        expect('value="0.5"' in page and 'value="0.25"' in page, "the options page offers 0.25 and 0.5", page)
        self._saw("ann", "The page offers CPU only, 0.25 and 0.5 GPU")
        await ann.start_server("0.5")
        hers = await notebook_of(ann)
        self._saw("ann", f"Ann's notebook has 0.5 GPU of {hers['devices'][0]}")
        await bob.start_server("0.25")
        his = await notebook_of(bob)
        expect(his["devices"] == hers["devices"], "both notebooks are on one device", his)
        self._saw("bob", "Bob's notebook has 0.25 of the same GPU")

    async def _a_server_beyond_the_quota_is_refused(self, bob: Person) -> None:
        try:
            await bob.start_server("0.25", "second")
        except ProductRefused as refusal:
            expect(refusal.status == 403 and "0.25" in refusal.message, "a 403 with the numbers", refusal.message)
            self._saw("bob", f"A second one is refused: {refusal.message}")
        else:
            raise NotSeen("Bob got a second server beyond Bob's fixed quota.")

    async def _a_cell_is_sent_and_borrows(self, ann: Person) -> str:
        notebook = shortened(await ann.read_notebook(NOTEBOOK))
        kernel = await ann.start_kernel(NOTEBOOK)
        for cell in code_cells(notebook)[:2]:
            await ann.run_cell(kernel, cell["source"])
        job = await ann.send(
            notebook, NOTEBOOK, kernel, training_cell(notebook), name="digits", queue="vision", gpus="1"
        )
        running = await until(
            lambda: ann.job(job["id"]), lambda seen: seen["phase"] == "running" and seen["last_seq"] > 3
        )
        expect(running["over_quota"] == "0.5", "the job is 0.5 over its queue's quota", running)
        self._saw("ann", "Ann's cell trains on 1 GPU, 0.5 of it borrowed; its output arrives")
        return str(job["id"])

    async def _its_server_may_stop(self, ann: Person, job: str) -> None:
        before = (await ann.job(job))["last_seq"]
        await ann.stop_server()
        await until(lambda: ann.job(job), lambda seen: seen["phase"] == "running" and seen["last_seq"] > before)
        self._saw("ann", "Ann closes the server; the job goes on")

    async def _the_owner_reclaims_and_the_job_comes_back(self, ann: Person, bob: Person, job: str) -> None:
        notebook = shortened(await bob.read_notebook(NOTEBOOK), epochs=20)
        kernel = await bob.start_kernel(NOTEBOOK)
        check = await bob.send(
            notebook, NOTEBOOK, kernel, training_cell(notebook), name="check", queue="nlp", gpus="0.5"
        )
        paused = await until(lambda: ann.job(job), lambda seen: seen["phase"] == "paused")
        self._saw("ann", paused["sentence"])
        await until(lambda: bob.job(check["id"]), lambda seen: seen["phase"] in {"running", "done"})
        self._saw("bob", "Bob's cell runs on the 0.5 GPU that nlp is guaranteed")
        done = await until(lambda: bob.job(check["id"]), lambda seen: seen["phase"] in {"done", "failed"})
        expect(done["phase"] == "done", "Bob's job succeeds", done)
        self._saw("bob", "Bob's job is done")
        resumed = await until(lambda: ann.job(job), lambda seen: seen["phase"] == "running")
        expect(resumed["run"] == 2, "Ann's job runs for the second time", resumed)
        printed = await until(lambda: text_of_run(ann, job, 2), lambda text: "epoch" in text.lower())
        self._saw("ann", f"Ann's continues: {next(line for line in printed.splitlines() if 'epoch' in line.lower())}")

    async def _an_idle_share_goes_to_who_waits(self, ann: Person, bob: Person, carol: Person) -> None:
        await ann.start_server("0.5")
        kernel = await ann.start_kernel(NOTEBOOK)
        async with beside(ann.run_cell(kernel, "import time; time.sleep(3600)")) as silent:
            self._saw("ann", "Ann is back, and a silent cell is busy in the kernel: the notebook is not idle")
            await until(lambda: notebook_of(bob), lambda seen: seen["idle_since"] is not None)
            await self._carol_gets_what_bob_leaves(bob, carol)
            hers = await notebook_of(ann)
            expect(hers["phase"] == "running" and hers["warning"] is None, "a busy notebook is left alone", hers)
            expect(not silent.done(), "Ann's silent cell runs all the while", silent)

    async def _carol_gets_what_bob_leaves(self, bob: Person, carol: Person) -> None:
        async with beside(carol.start_server("0.5")) as hers_starts:
            warned = await until(lambda: notebook_of(bob), lambda seen: seen["warning"] is not None)
            self._saw("bob", f"Bob's lab counts down: {warned['warning']['sentence']}")
            await hers_starts
        self._saw("carol", "Carol waited; Carol's notebook starts with 0.5 GPU")
        told = (await bob.service("GET", "me"))["last_eviction"]
        expect(told is not None and told["reason"] == "IDLE", "Bob is told why the share went", told)
        self._saw("bob", told["sentence"])

    async def _the_result_is_there(self, ann: Person, job: str) -> None:
        done = await until(lambda: ann.job(job), lambda seen: seen["phase"] in {"done", "failed"})
        expect(done["phase"] == "done", "Ann's job succeeds", done)
        notebook = await ann.service("GET", f"jobs/{job}/notebook")
        pictures = [
            out for cell in code_cells(notebook) for out in cell["outputs"] if "image/png" in out.get("data", {})
        ]
        expect(bool(pictures), "the executed notebook has the plot", notebook)
        self._saw("ann", "The finished plot is in Ann's notebook")

    def _saw(self, who: str, what: str) -> None:
        now = monotonic()
        step = Seen(at=now - self._began, took=now - self._step_began, who=who, what=what)
        self._step_began = now
        self.seen.append(step)
        self.tell(step)


def expect(truth: bool, what: str, seen: object) -> None:
    """Go on if it is true; else raise `NotSeen` with what was expected and what was seen."""
    if not truth:
        raise NotSeen(f"Expected that {what}, but saw: {str(seen)[:1500]}")


@asynccontextmanager
async def beside(work: Coroutine[object, None, T]) -> AsyncIterator["asyncio.Task[T]"]:
    """Do that beside the story for as long as the block lasts; whoever wants to know how it ended awaits the task."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # an error after the story's own would only be noise


async def until(look: Callable[[], Awaitable[T]], enough: Callable[[T], bool], seconds: float = PATIENCE) -> T:
    """Look until it is enough; raise `NotSeen` with the last look after so many seconds."""
    seen: T | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                seen = await look()
                if enough(seen):
                    return seen
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        raise NotSeen(f"Waited {seconds:.0f} s; the last that was seen: {str(seen)[:1500]}") from error


async def notebook_of(person: Person) -> JsonObject:
    """Return the notebook server of a person who has one."""
    notebooks = (await person.service("GET", "notebooks"))["notebooks"]
    if not notebooks:
        raise NotSeen(f"{person.name} has no notebook.")
    return dict(notebooks[0])


async def text_of_run(person: Person, job: str, run: int) -> str:
    """Return the text that the target cell printed in that run."""
    page = await person.service("GET", f"jobs/{job}/outputs?after=0")
    return "".join(
        event["output"].get("text", "")
        for event in page["events"]
        if event["op"] == "append" and event["run"] == run and event["role"] == "target"
    )


def code_cells(notebook: JsonObject) -> list[JsonObject]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def training_cell(notebook: JsonObject) -> str:
    """Return the id of the cell that trains: the one that listens to `should_stop`."""
    return next(str(cell["id"]) for cell in code_cells(notebook) if "should_stop()" in cell["source"])


def shortened(notebook: JsonObject, epochs: int = EPOCHS) -> JsonObject:
    """Return the notebook with another number of epochs, as a user would edit it."""
    for cell in code_cells(notebook):
        source = "".join(cell["source"])  # a file keeps a list of lines, the contents API one text
        lines = (f"EPOCHS = {epochs}" if line.startswith("EPOCHS = ") else line for line in source.splitlines())
        cell["source"] = "\n".join(lines)
    return notebook


def story_config(base: Path, folder: Path, idle_rule: Mapping[str, float] = IDLE_RULE) -> Path:
    """Write a hub configuration that is the demo's, with this idle rule, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "jupyterhub_config_story.py"
    rule = "".join(f"c.IdlePolicy.{name} = {value}\n" for name, value in idle_rule.items())
    config.write_text(f"c = get_config()  # noqa: F821\nload_subconfig({str(base)!r})  # noqa: F821\n{rule}")
    return config

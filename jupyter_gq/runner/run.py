"""One run of a job: its cells in a kernel, its outputs on their way, its end on record.

Order at the end: the kernel goes first (it holds the GPU), then the notebook is written, then what is left is
delivered, and the result is written last.
"""

import asyncio
import contextlib
import logging
import sys
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.client.executed import Shown, executed

from .cells.cells import CellClient, CellFailed, KernelDied
from .cells.connection import connect, shut_down
from .cells.kernel import FROM_OUTSIDE, KernelProcess, death_sentence, start_kernel
from .clock import now
from .delivery.outlet import Outlet
from .files.job import Job
from .output.executed_notebook import left_outputs, write_notebook
from .output.recorder import Recorder
from .problems import KernelError, disk_sentence
from .result import PAUSED, SUCCEEDED, Verdict, broken, kernel_ended, raised

log = logging.getLogger(__name__)

#: Seconds a kernel may take to answer for the first time.
KERNEL_START = 120.0
#: Seconds a kernel may take to end by itself: exit handlers of the user's libraries run then.
KERNEL_END = 5.0
#: Seconds in which we are told to stop too when somebody ends the kernel and us.
WITH_US = 1.5
#: Seconds between two writings of the notebook, at least.
SAVE = 2.0
#: Seconds to wait for a service that is down before the run ends without it.
DELIVER = 600.0
#: The same where the run's folder goes with it.
DELIVER_FLEETING = 3600.0
#: The same for a run that was told to stop: its next run delivers what is left.
DELIVER_STOPPED = 5.0
UNDELIVERED = (
    "Its cells ran, but the scheduler service could not be reached for an hour, so what they showed last is lost. "
    "What they saved as a checkpoint is there; send the cell again."
)
#: Seconds before the end of its time in which a stopped run writes its result.
RESERVE = 1.0


class Run:
    """Runs the cells of a job once."""

    def __init__(self, job: Job, kernel: KernelProcess) -> None:
        self._job = job
        #: Another one than it was given, if the first could not be reached.
        self.kernel = kernel
        self._loop = asyncio.get_running_loop()
        self._broken: asyncio.Future[OSError] = self._loop.create_future()
        self._stopped_early: asyncio.Future[None] = self._loop.create_future()
        self._outlet = Outlet(job, self._broken)
        self._recorder = Recorder(self._outlet.emit, self._loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._connection: AsyncKernelClient | None = None
        #: What is written into the notebook; its outputs are the recorder's.
        self._shown = Shown(run=job.folder.run)
        self._target_begun = False
        self._saved_state: object = None
        self._writing: asyncio.Future[None] | None = None
        self._closing = False
        self._told_to_stop = asyncio.Event()

    async def run(self) -> int:
        """Run to the end, whatever it is; return the exit status of the process."""
        self._job.stop.listen(self._wake_on_stop)
        verdict = await self._verdict()
        self._outlet.end_line()
        log.info("%s %s", verdict.outcome, verdict.sentence)
        if verdict.outcome == "PAUSED":
            self._outlet.emit([{"op": "run", "state": "pause"}])
        await shut_down(self.kernel, self._connection, self._time_left(KERNEL_END))
        try:
            await self._save()
        except OSError as error:
            verdict = broken(disk_sentence(error)) if verdict is SUCCEEDED else verdict
        self._closing = True
        delivered = await self._outlet.close(self._time_left(self._patience()))
        if self._job.fleeting and verdict is SUCCEEDED and not delivered:
            verdict = PAUSED if self._job.stop.asked else broken(UNDELIVERED)
        if self._broken.done() and verdict is SUCCEEDED:
            verdict = broken(disk_sentence(self._broken.result()))
        self._job.folder.write_result(verdict.result(now()))
        return 1 if verdict.outcome == "FAILED" else 0

    def _wake_on_stop(self) -> None:
        """Called between any two instructions, by a signal."""
        self._loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        self._told_to_stop.set()
        self._outlet.end_line()
        log.info("This run was told to stop.")
        if self._closing:
            self._outlet.hurry(self._time_left(self._patience()))
        if not self._target_begun and not self._stopped_early.done():
            self._stopped_early.set_result(None)  # nothing of the target was computed: nothing to wait for

    def _patience(self) -> float:
        """Seconds that the service may take to hear of everything."""
        if self._job.fleeting:
            return DELIVER_FLEETING
        return DELIVER_STOPPED if self._job.stop.asked else DELIVER

    def _time_left(self, most: float) -> float:
        """Seconds that something may take at the end: less when the run was told to stop."""
        if self._job.stop.deadline is None:
            return most
        return min(most, max(0.2, self._job.stop.deadline - RESERVE - now()))

    async def _verdict(self) -> Verdict:
        """Run the cells until they end, a stop makes them pointless, or the disk is full."""
        work = asyncio.create_task(self._work())
        saving = asyncio.create_task(self._keep_saving())
        ends: set[asyncio.Future[Any]] = {work, self._broken, self._stopped_early}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self._recorder.say(self._loop.time(), everything=True)
        saving.cancel()
        if self._broken.done():
            await _end(work)
            return broken(disk_sentence(self._broken.result()))
        if not work.done():
            await _end(work)
            return PAUSED
        try:
            return work.result()
        except Exception as error:
            # The last guard of the cells: what they showed so far is still delivered.
            log.exception("The runner itself failed.")
            return broken(f"The runner itself failed ({type(error).__name__}: {error}); the log has more.")

    async def _work(self) -> Verdict:
        connecting = asyncio.create_task(self._connect())
        try:
            await self._outlet.open()
            self._outlet.emit([{"op": "run", "state": "start"}])
            self._restore()
            self._connection, self._shown.language = await connecting
            self._outlet.emit([{"op": "run", "state": "ready", "language": self._shown.language}])
        except KernelError as error:
            return broken(str(error))
        finally:
            connecting.cancel()
        cells = CellClient(self._job.bundle.notebook, self.kernel, self._recorder, self._on_output)
        cells.kc = self._connection
        for cell in self._job.bundle.cells:
            verdict = await self._run_cell(cells, cell)
            if verdict is not None:
                return verdict
        return SUCCEEDED

    async def _connect(self) -> tuple[AsyncKernelClient, dict[str, Any]]:
        bundle = self._job.bundle
        try:
            return await connect(self.kernel, bundle.kernel_title, KERNEL_START)
        except KernelError:
            if bundle.language == "python" or self.kernel.exit_code is None:
                raise
            log.info("The kernel ended at once; trying again with ports, in case it knows no socket files.")
            self.kernel.discard()
            self.kernel = start_kernel(bundle, self._job.folder.path, self._job.kernel_env, "tcp")
            return await connect(self.kernel, bundle.kernel_title, KERNEL_START)

    def _restore(self) -> None:
        """Take up what earlier runs of this job have shown under its targets."""
        spool, folder = self._outlet.spool, self._job.folder
        if spool is None or folder.run == 1:
            return
        outputs, ended = left_outputs(folder.notebook, spool.after(0))
        for cell in self._job.bundle.cells:
            left = outputs.get(cell.id)
            if left:
                # A cell that was interrupted goes on below what it said; one that runs anew begins anew.
                goes_on = cell.role == "target" and cell.id not in ended
                self._recorder.cell(cell.id, cell.role).restore(left if goes_on else [])

    async def _run_cell(self, cells: CellClient, cell: CellToRun) -> Verdict | None:
        """Run one cell; None when it went well and all of it was wanted."""
        about = {"op": "cell", "cell": cell.id, "role": cell.role}
        self._target_begun = self._target_begun or cell.role == "target"
        self._outlet.emit([{**about, "state": "start", "execution_count": None}])
        verdict: Verdict | None = PAUSED  # when this is cancelled
        try:
            verdict = await self._verdict_of(cells, cell)
        finally:
            count = self._shown.counts[cell.id] = cells.execution_count(cell)
            if verdict is None:
                self._shown.ended.add(cell.id)
            self._recorder.say(self._loop.time(), everything=True)
            ended = {**about, "state": "end", "execution_count": count, "finished": verdict is None}
            self._outlet.emit([ended])
        return verdict

    async def _verdict_of(self, cells: CellClient, cell: CellToRun) -> Verdict | None:
        try:
            await cells.run_cell(cell)
        except CellFailed as failure:
            verdict: Verdict | None = raised(self._job.bundle.cells, cell, failure.ename, failure.evalue)
        except KernelDied:
            verdict = await self._verdict_without_kernel(cell)
        else:
            verdict = None
        # Code that knows that it should end has ended because of that, however it did.
        return PAUSED if self._job.stop.asked and self._job.folder.stop_seen else verdict

    async def _verdict_without_kernel(self, cell: CellToRun) -> Verdict:
        if await self._kernel_was_ended(WITH_US):
            return PAUSED
        code = self.kernel.exit_code
        how = "was ended by this run" if code is None else death_sentence(code)
        return kernel_ended(self._job.bundle.cells, cell, how)

    async def _kernel_was_ended(self, seconds: float) -> bool:
        """The kernel was ended from outside, and so are we: now or within this time.

        A machine that shuts down ends both at once; the job is not to blame and goes on later.
        """
        code = self.kernel.exit_code
        if code is None or -code not in FROM_OUTSIDE:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told_to_stop.wait()
        return self._job.stop.asked

    def _on_output(self) -> None:
        """Something changed: say it now, or soon together with what follows."""
        if self._timer is None:
            wait = self._recorder.due(self._loop.time())
            if wait == 0:
                self._recorder.say(self._loop.time())
            elif wait is not None:
                self._timer = self._loop.call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._on_output()

    async def _keep_saving(self) -> None:
        """Write the notebook every few seconds, more rarely when it is large."""
        pause = SAVE
        while True:
            await asyncio.sleep(pause)
            before = self._loop.time()
            try:
                await self._save()
            except OSError as error:
                if not self._broken.done():
                    self._broken.set_result(error)
                return
            pause = max(SAVE, 20 * (self._loop.time() - before))

    async def _save(self) -> None:
        """Write the executed notebook as it stands, if it changed."""
        spool = self._outlet.spool
        if spool is None:
            return
        state = (spool.last, len(self._shown.ended))
        if state == self._saved_state:
            return
        bundle, self._shown.seq = self._job.bundle, spool.last
        self._shown.outputs = {cell.id: self._recorder.outputs(cell.id) for cell in bundle.cells}
        notebook = executed(bundle.notebook, bundle.cells, self._shown.about(self._job.id), self._shown)
        if self._writing is not None:
            await asyncio.wait({self._writing})  # of a `_save` that was cancelled: it goes on in its thread
        self._writing = self._loop.run_in_executor(None, write_notebook, self._job.folder.notebook, notebook)
        await asyncio.shield(self._writing)
        self._saved_state = state
        if spool.last == state[0]:
            self._outlet.saved()


async def _end(task: "asyncio.Task[Any]") -> None:
    """Cancel it and wait until it has gone."""
    task.cancel()
    await asyncio.wait({task}, timeout=1.0)


def run_job(job: Job, kernel: KernelProcess) -> int:
    """Run this job in this kernel; return the exit status of the process."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    logging.raiseExceptions = False  # a full disk is reported by the run itself

    async def run() -> int:
        run = Run(job, kernel)
        try:
            return await run.run()
        finally:
            run.kernel.discard()

    return asyncio.run(run())

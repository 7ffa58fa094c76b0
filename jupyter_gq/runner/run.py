"""The run of a job: run its cells in a kernel, deliver their outputs, write the result.

Order at the end: the kernel is ended first because it holds the GPU. Then the notebook is written, the remaining
outputs are delivered, and the result is written last. The share of the GPU is free when the runner has ended, so the
runner does not wait for the delivery if the outputs outlive it on this machine.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.client.exit_status import OUTPUTS_LOST
from jupyter_gq.client.outputs.executed import ShownOutputs, make_executed_notebook
from jupyter_gq.client.outputs.fold import make_notice
from jupyter_gq.domain.json_types import JsonObject

from .cells.carried import load_variables, restore_variables
from .cells.cells import CellClient, CellExited, CellFailed, CommandFailed, KernelDied, KernelGaveNoReply
from .cells.connection import connect, shut_down
from .cells.kernel import OUTSIDE_SIGNALS, KernelProcess, start_kernel
from .cells.returns import refuse_variables, save_variables
from .clock import monotonic, now
from .delivery.shipper import OutputShipper
from .files.job import Job
from .files.results import write_results
from .mask import Mask
from .output.executed_notebook import is_readable, load_earlier_outputs, write_notebook
from .output.progress_bars import find_progress
from .output.recorder import Recorder
from .problems import OUTPUT_DROPPED, KernelError, describe_disk_error, is_disk_full
from .result import (
    PAUSED,
    SUCCEEDED,
    RunResult,
    describe_exception,
    describe_exit_by_code,
    describe_failed_command,
    describe_failure,
    describe_kernel_exit,
    describe_missing_reply,
    hide_secrets,
    locate_cell,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Seconds that a kernel may take to answer for the first time.
KERNEL_START_TIMEOUT = 120.0
#: Seconds that a kernel may take to end by itself; exit handlers of the user's libraries run in this time.
KERNEL_STOP_TIMEOUT = 5.0
#: Seconds within which a machine that shuts down sends SIGTERM to the runner as well as to the kernel.
SHUTDOWN_WINDOW = 1.5
#: Minimum of seconds between two writings of the notebook.
SAVE_INTERVAL = 2.0
#: Seconds between two attempts to write outputs while the disk is full.
ROOM_INTERVAL = 1.0
#: Seconds to wait until the service has the last outputs; the service reads the rest from the run's folder.
DELIVERY_TIMEOUT = 2.0
#: Seconds to wait if the folder does not outlive the run: for a service that is down, and for one that answers, and
#: could give the devices of this run to others, but does not take the outputs.
EPHEMERAL_DELIVERY_TIMEOUT, REFUSED_DELIVERY_TIMEOUT = 3600.0, 30.0
UNDELIVERED_SENTENCE = (
    "The cells ran, but their last outputs are lost, because the scheduler service did not take them: {why}. "
    "Their checkpoint is kept; send the cell again."
)
#: Seconds before the deadline of a stop that are kept for writing the result, and for everything after the variables.
RESULT_RESERVE, END_RESERVE = 1.0, 3.0
#: Seconds that the kernel may take to save the variables that the job returns.
SAVE_TIMEOUT = 600.0
#: What a log calls the ends of a run, as the panel does.
OUTCOME_WORDS = {"SUCCEEDED": "Done.", "FAILED": "Failed.", "PAUSED": "Paused."}
#: What divides the outputs of two runs of a job; see docs/decisions/0269-divide-the-outputs-of-two-runs.md.
STARTED_AGAIN = "The job started again here; what follows is from run {run}."
UNFINISHED = "The job did not reach its end, so its variables were not saved."


class Run:
    """The run of the cells of a job."""

    def __init__(self, job: Job, kernel: KernelProcess) -> None:
        self._job = job
        #: The given kernel, or the one that replaced it because the first could not be reached.
        self.kernel = kernel
        self._loop = asyncio.get_running_loop()
        self._disk_error: asyncio.Future[OSError] = self._loop.create_future()
        self._stopped_early: asyncio.Future[None] = self._loop.create_future()
        self._shipper = OutputShipper(job, self._disk_error, self._progress)
        self._mask = Mask(job.secrets)
        self._recorder = Recorder(self._shipper.emit, monotonic(), mask=self._mask, note=self._shipper.log_output)
        self._timer: asyncio.TimerHandle | None = None
        self._connection: AsyncKernelClient | None = None
        #: Content of the executed notebook; its outputs come from the recorder.
        self._shown = ShownOutputs(run=job.folder.run)
        #: The target that runs or has run last; None before the first.
        self._target: CellToRun | None = None
        #: How many replayed cells have begun.
        self._replays = 0
        #: What the kernel says about the variables that the job returns.
        self._variables = refuse_variables(job.bundle.returns, UNFINISHED)
        self._saved_state: object = None
        self._writing: asyncio.Future[None] | None = None
        self._closing = False
        self._told_to_stop = asyncio.Event()

    async def run(self) -> int:
        """Run the cells until they end, fail or are stopped; return the exit status of the process, 1 for a failure.

        Also ends the kernel, writes the notebook, delivers the outputs, and writes the result. A success becomes a
        failure if the disk fails, or if outputs would be lost with an ephemeral folder (PAUSED after a stop). On a
        full disk it stays a success, with a sentence that outputs may be missing.
        """
        self._job.stop.set_listener(self._wake_on_stop)
        result = hide_secrets(await self._run_until_end(), self._mask)
        self._shipper.end_log_line()
        log.info("%s %s", OUTCOME_WORDS[result.outcome], result.sentence)
        if result.outcome == "PAUSED":
            self._shipper.emit([{"op": "run", "state": "pause"}])
        await shut_down(self.kernel, self._connection, self._limit_to_deadline(KERNEL_STOP_TIMEOUT))
        dropped = False
        try:
            await self._save()
            self._write_results()
        except OSError as error:
            dropped = is_disk_full(error)
            if not dropped and result.outcome == "SUCCEEDED":
                result = describe_failure(describe_disk_error(error))
        self._closing = True
        delivered = await self._shipper.close(
            self._limit_to_deadline(self._delivery_timeout()), refused=REFUSED_DELIVERY_TIMEOUT
        )
        if self._job.ephemeral and result.outcome == "SUCCEEDED" and not delivered:
            why = self._shipper.trouble.rstrip(".")
            stopped = replace(PAUSED, sentence=f"{': '.join(filter(None, [OUTPUTS_LOST, why]))}.")
            lost = describe_failure(UNDELIVERED_SENTENCE.format(why=why))
            result = stopped if self._job.stop.is_requested else lost
        if result.outcome == "SUCCEEDED" and (dropped or (self._shipper.is_incomplete and not delivered)):
            result = replace(SUCCEEDED, sentence=OUTPUT_DROPPED)
        if self._disk_error.done() and result.outcome == "SUCCEEDED":
            result = describe_failure(describe_disk_error(self._disk_error.result()))
        self._job.folder.write_result(result.to_document(now()))
        return 1 if result.outcome == "FAILED" else 0

    def _progress(self) -> tuple[float | None, str] | None:
        """Return (fraction, text) as the user's code reports it, otherwise as the bars of the present target show it.

        Before the first target, the text names the replayed cell that runs. None if there is nothing to say.
        """
        reported = self._job.folder.progress()
        if reported is not None:
            return reported[0], self._mask.hide(reported[1])
        if self._target is None:
            place = f"{self._replays} of {len(self._job.bundle.replayed)}"
            return (None, f"Runs cell {place} before the one that was sent.") if self._replays else None
        # The service keeps the last text, so a target without bars takes back the one on the replayed cells.
        otherwise = (None, "") if self._replays else None
        try:
            return find_progress(self._recorder.outputs(self._target.id)) or otherwise
        except Exception:
            # A guess from the output of any library must end neither the heartbeats nor the job.
            log.exception("The bars in the output could not be read.")
            return otherwise

    def _wake_on_stop(self) -> None:
        """Let the event loop call `_on_stop` soon; safe in a signal handler, between any two instructions."""
        self._loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        """React to the request to stop: end a run that still replays earlier cells, and shorten a delivery at the end.

        Cells that the user asked to run learn of the request by the file `stop`, and are not interrupted.
        """
        self._told_to_stop.set()
        self._shipper.end_log_line()
        log.info("This run was told to stop.")
        if self._closing:
            self._shipper.shorten_close(self._limit_to_deadline(self._delivery_timeout()))
        if self._target is None and not self._stopped_early.done():
            self._stopped_early.set_result(None)  # no target has begun, so no result of one is worth waiting for

    def _delivery_timeout(self) -> float:
        """Return how many seconds the end of the run may wait for a service that lacks outputs.

        The wait is one hour if the folder is lost with the run, otherwise 2 s.
        """
        return EPHEMERAL_DELIVERY_TIMEOUT if self._job.ephemeral else DELIVERY_TIMEOUT

    def _limit_to_deadline(self, seconds: float) -> float:
        """Return `seconds`, or after a request to stop the seconds until 1 s before its deadline if those are fewer.

        The result is then at least 0.2.
        """
        if self._job.stop.deadline is None:
            return seconds
        return min(seconds, max(0.2, self._job.stop.deadline - RESULT_RESERVE - now()))

    async def _run_until_end(self) -> RunResult:
        """Run the cells until they end, a stop comes before the first target, or the disk refuses; return the result.

        An early stop is PAUSED; a disk that refuses and an error of the runner itself are FAILED.
        """
        work = asyncio.create_task(self._connect_and_run_cells())
        saving = asyncio.create_task(self._keep_saving())
        ends: set[asyncio.Future[RunResult] | asyncio.Future[OSError] | asyncio.Future[None]]
        ends = {work, self._disk_error, self._stopped_early}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self._recorder.finish(monotonic())
        saving.cancel()
        if self._disk_error.done():
            await _cancel(work)
            return describe_failure(describe_disk_error(self._disk_error.result()))
        if not work.done():
            await _cancel(work)
            return PAUSED
        try:
            return work.result()
        except Exception as error:
            # The last guard of the cells: outputs so far are still delivered.
            log.exception("The runner itself failed.")
            return describe_failure(f"The runner itself failed ({type(error).__name__}: {error}); the log has more.")

    async def _connect_and_run_cells(self) -> RunResult:
        """Start the delivery, connect to the kernel, restore earlier outputs, and run the cells in order.

        Return SUCCEEDED after the last cell, otherwise the result of the first cell that ended the run. A kernel that
        does not answer is FAILED.
        """
        connecting = asyncio.create_task(self._connect_to_kernel())
        try:
            await self._shipper.start()
            self._shipper.emit([{"op": "run", "state": "start"}])
            self._restore_earlier_outputs()
            self._connection, self._shown.language = await connecting
            self.kernel.last_words.hold_pipes(self.kernel.process.pid)
            self._shipper.emit([{"op": "run", "state": "ready", "language": self._shown.language}])
            await load_variables(self._connection, self.kernel, self._job.folder, self._job.bundle)
        except KernelError as error:
            return describe_failure(str(error))
        finally:
            connecting.cancel()
        cells = CellClient(self._job.bundle.notebook, self.kernel, self._recorder, self._schedule_flush)
        cells.kc = self._connection
        result = await self._run_cells(cells, self._job.bundle.replayed)
        if result is None:
            try:
                await restore_variables(self._connection, self.kernel, self._job.folder, self._job.bundle)
            except KernelError as error:
                return describe_failure(str(error))
            result = await self._run_cells(cells, self._job.bundle.targets)
        if result is not None:
            return result
        if self._job.folder.task == 0:
            self._variables = await self._save_variables(self._connection)
        return SUCCEEDED

    async def _save_variables(self, connection: AsyncKernelClient) -> JsonObject:
        """Let the kernel save the variables that the job returns; return its report.

        A stop of the job shortens the time for it.
        """
        end = monotonic() + SAVE_TIMEOUT

        def seconds_left() -> float:
            deadline = self._job.stop.deadline
            left = end - monotonic()
            return left if deadline is None else min(left, deadline - END_RESERVE - now())

        return await save_variables(connection, self.kernel, self._job.folder, self._job.bundle, seconds_left)

    def _write_results(self) -> None:
        """Write the list of results: of variables, and of files in the result folder. Only task 0 writes one."""
        folder = self._job.folder
        if folder.task == 0:
            variables = self._mask.hide_all(self._variables)
            files = self._job.bundle.files
            write_results(folder.results_record, folder.results, variables, files, self._mask.hide)

    async def _connect_to_kernel(self) -> tuple[AsyncKernelClient, JsonObject]:
        """Return a client of the kernel and its `language_info`; raise `KernelError` if the kernel does not answer.

        If a kernel other than Python's ends at once, it is started again with TCP ports.
        """
        bundle = self._job.bundle
        try:
            return await connect(self.kernel, bundle.kernel_name, KERNEL_START_TIMEOUT)
        except KernelError:
            if bundle.language == "python" or self.kernel.exit_code is None:
                raise
            log.info("The kernel ended at once. Trying again with TCP ports: it may not support socket files.")
            self.kernel.discard()
            mask = self._mask if self._job.secrets else None
            self.kernel = start_kernel(
                bundle, self._job.folder.path, self._job.kernel_env, "tcp", mask, in_pod=self._job.ephemeral
            )
            return await connect(self.kernel, bundle.kernel_name, KERNEL_START_TIMEOUT)

    def _restore_earlier_outputs(self) -> None:
        """Restore the outputs of each target that an earlier run left unfinished; clear the other earlier outputs.

        A target is a cell that the user asked to run. The first run and tasks other than task 0 have nothing to
        restore.
        """
        spool, folder = self._shipper.spool, self._job.folder
        if spool is None or folder.run == 1:
            return
        outputs, ended = load_earlier_outputs(folder.notebook, spool.pieces_after(0))
        for cell in self._job.bundle.cells:
            left = outputs.get(cell.id)
            if left:
                # An interrupted target continues below its earlier outputs; every other cell begins without outputs.
                is_interrupted = cell.role == "target" and cell.id not in ended
                self._recorder.cell_output(cell.id, cell.role).restore(left if is_interrupted else [])

    async def _run_cells(self, client: CellClient, cells: Sequence[CellToRun]) -> RunResult | None:
        """Run these cells in order; return the result that ends the run, None if all of them have run."""
        for cell in cells:
            result = await self._run_cell(client, cell)
            if result is not None:
                return result
        return None

    async def _run_cell(self, cells: CellClient, cell: CellToRun) -> RunResult | None:
        """Run one cell and emit its start, outputs and end; return the result that ends the run, None to go on."""
        about = {"op": "cell", "cell": cell.id, "role": cell.role}
        if cell.role == "target":
            self._target = cell
        else:
            self._replays += 1
        self._shipper.log_cell(self._mask.hide(locate_cell(self._job.bundle.cells, cell)))
        self._shipper.emit([{**about, "state": "start", "execution_count": None}])
        if self._recorder.outputs(cell.id):  # an earlier run left them
            self._divide_outputs(cell)
        result: RunResult | None = PAUSED  # holds if the task is cancelled
        try:
            result = await self._execute_cell(cells, cell)
        finally:
            count = self._shown.counts[cell.id] = cells.execution_count(cell)
            finished = result is None or result.outcome == "SUCCEEDED"
            if finished:
                self._shown.ended.add(cell.id)
            self._recorder.flush(monotonic(), everything=True)
            ended = {**about, "state": "end", "execution_count": count, "finished": finished}
            self._shipper.emit([ended])
        return result

    def _divide_outputs(self, cell: CellToRun) -> None:
        """Add a line to the outputs of a cell that says that those of this run follow."""
        notice = make_notice(STARTED_AGAIN.format(run=self._job.folder.run))
        self._recorder.append(self._recorder.cell_output(cell.id, cell.role), notice, "display_data", None)

    async def _execute_cell(self, cells: CellClient, cell: CellToRun) -> RunResult | None:
        """Execute one cell; return the result that ends the run, or None if the next cell can run.

        The result is PAUSED if the code saw a request to stop, or if kernel and runner were ended together from
        outside.
        """
        self.kernel.memory.restart()
        is_last = cell is self._job.bundle.cells[-1]
        is_judged = is_last and self._job.bundle.language == "python" and not cells.may_raise(cell)
        try:
            if is_judged:
                cells.watch_end()
            await cells.run_cell(cell)
            if is_judged:
                await cells.check_end()
        except CellFailed as failure:
            kill = self.kernel.memory.find_kill()
            said = (failure.ename, failure.evalue)
            result: RunResult | None = describe_exception(
                self._job.bundle.cells, cell, *said, kill, by_value=failure.by_value
            )
        except CellExited as exited:
            result = describe_exit_by_code(self._job.bundle.cells, cell, exited.end.argument)
        except CommandFailed as failure:
            kill, ended = self.kernel.memory.find_kill(), (failure.command, failure.status)
            result = describe_failed_command(self._job.bundle.cells, cell, *ended, kill)
        except KernelGaveNoReply:
            result = describe_missing_reply(self._job.bundle.cells, cell)
        except KernelDied:
            result = await self._explain_dead_kernel(cell)
        else:
            result = None
        # Code that saw the request to stop has ended because of it, even if it raised.
        return PAUSED if self._job.stop.is_requested and self._job.folder.stop_seen else result

    async def _explain_dead_kernel(self, cell: CellToRun) -> RunResult:
        if await self._was_ended_with_kernel(SHUTDOWN_WINDOW):
            return PAUSED
        code, how = self.kernel.exit_code, self.kernel.describe_exit()
        if code is not None and code >= 0:
            how += ", perhaps by exit() in the code"
        kill = self.kernel.memory.find_kill() if code == -signal.SIGKILL else None
        return describe_kernel_exit(self._job.bundle.cells, cell, how, "" if kill is None else kill.remedy)

    async def _was_ended_with_kernel(self, seconds: float) -> bool:
        """Return whether kernel and runner were both ended from outside; wait up to `seconds` for the runner's signal.

        A machine that shuts down ends both at once. The job has not failed then and is continued later.
        """
        code = self.kernel.exit_code
        if code is None or -code not in OUTSIDE_SIGNALS:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told_to_stop.wait()
        return self._job.stop.is_requested

    def _schedule_flush(self) -> None:
        """Flush the changed outputs if that is due now, else schedule a flush.

        Do nothing if a flush is already scheduled.
        """
        if self._timer is None:
            wait = self._recorder.seconds_until_flush(monotonic())
            if wait is not None and self._shipper.has_no_room:
                wait = ROOM_INTERVAL  # meanwhile the recorder folds the changes, which bounds their size
            if wait == 0:
                self._recorder.flush(monotonic())
            elif wait is not None:
                self._timer = self._loop.call_later(wait, self._flush_after_wait)

    def _flush_after_wait(self) -> None:
        self._timer = None
        self._shipper.write_waiting()
        self._schedule_flush()

    async def _keep_saving(self) -> None:
        """Write the notebook every few seconds until cancelled, less often if it is large.

        A full disk is tried again. If the disk refuses for another reason, `_disk_error` is set, which ends the run.
        """
        pause = SAVE_INTERVAL
        while True:
            await asyncio.sleep(pause)
            before = monotonic()
            self._shipper.write_waiting()
            try:
                await self._save()
            except OSError as error:
                if not is_disk_full(error):
                    if not self._disk_error.done():
                        self._disk_error.set_result(error)
                    return
            pause = max(SAVE_INTERVAL, 20 * (monotonic() - before))

    async def _save(self) -> None:
        """Write the executed notebook if it changed since the last writing; raise `OSError` if the disk refuses.

        Only task 0 writes one. Afterwards, a large spool that was delivered entirely is emptied.
        """
        spool = self._shipper.spool
        if spool is None:
            return
        state = (spool.last, len(self._shown.ended))
        if state == self._saved_state:
            return
        bundle, self._shown.seq = self._job.bundle, spool.last
        self._shown.outputs = {cell.id: self._recorder.outputs(cell.id) for cell in bundle.cells}
        notebook = make_executed_notebook(bundle.notebook, bundle.cells, self._shown.about(self._job.id), self._shown)
        if self._writing is not None:
            await asyncio.wait({self._writing})  # a cancelled `_save` goes on writing in its thread
        self._writing = self._loop.run_in_executor(None, write_notebook, self._job.folder.notebook, notebook)
        await asyncio.shield(self._writing)
        self._saved_state = state
        await self._shipper.trim_spool(state[0], partial(is_readable, self._job.folder.notebook))


async def _cancel(task: "asyncio.Task[T]") -> None:
    """Cancel the task and wait at most a second until it has ended; return without an error in either case."""
    task.cancel()
    await asyncio.wait({task}, timeout=1.0)


def run_job(job: Job, kernel: KernelProcess) -> int:
    """Run this job in this kernel, end the kernel, and return the exit status of the process."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    logging.raiseExceptions = False  # a full disk is reported by the run itself

    async def run() -> int:
        run = Run(job, kernel)
        try:
            return await run.run()
        finally:
            run.kernel.discard()

    return asyncio.run(run())

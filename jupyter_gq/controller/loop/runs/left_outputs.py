"""The outputs that ended runs have left on this machine, because the service did not take them in time.

A run ends without waiting for the delivery of its last outputs, so that its devices are free. The service then reads
these outputs itself, a portion in each step, and only after that lets the backend forget the run. So the rest is stored
also after a restart of the service, and whenever its disk has room again.

The portions are read in threads and stored on the event loop. Once a step has taken `BUDGET` seconds, the other runs
have their turn in later steps. A step waits `PATIENCE` seconds for a portion; one that takes longer is stored in a
later step. If the file system gives no answer, the portion is read again. A run counts as done without its outputs once
its job has ended or waited for more than `LONGEST_SILENCE` seconds, and this service got no answer for `LEAST_SILENCE`
seconds. So neither a leap of the clock nor a late restart gives up files that answer. If the next run of the job has
begun, the day is not waited for: the outputs could not be added any more, for those of that run follow the last stored
piece. They are given up after `LEAST_SILENCE` seconds, and the log of the service says so.

See docs/decisions/0079-let-the-service-read-the-last-outputs.md, 0339-go-on-without-files-that-answer-late.md and
0356-let-a-silent-folder-go-after-a-day.md.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from pydantic import TypeAdapter, ValidationError

from jupyter_gq.backends.bundles import LeftOutputs
from jupyter_gq.backends.user_threads import UserThreads
from jupyter_gq.client.models import SentOutputEvent
from jupyter_gq.client.outputs.fold import make_notice, make_substitute
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import BackendError, NotFound, StorageFull, UnansweredFile, UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.store.protocol import PageSize

log = logging.getLogger(__name__)

#: Seconds of a step after which no further run is read.
BUDGET = 0.5
#: Seconds that a step waits for one portion.
PATIENCE = 1.0
#: Seconds since the end of a job after which nobody waits for files that do not answer.
LONGEST_SILENCE = Seconds(86400)
#: Seconds for which the files must not have answered to this service, in which the machine is awake.
LEAST_SILENCE = Seconds(3600)
#: Sentence under the cell that ran last.
UNREADABLE = (
    "What this job printed last could not be read: for a day, the file system of its folder gave no answer. If it "
    "answers again, the log of the job may have it."
)
#: Stored pieces among which the cell that ran last is looked for.
_MOST_SEARCHED = PageSize(entries=100, size=2**20)
_threads = UserThreads("files of ended runs", most=8, most_of_user=1)
_PIECE: TypeAdapter[object] = TypeAdapter(SentOutputEvent)


class LeftOutputReader:
    """The storing of the outputs that ended runs have left."""

    def __init__(self, context: Context, append: Callable[[str, Sequence[JsonObject]], int]) -> None:
        """Start at the beginning of each run's outputs.

        `append` stores pieces of a job's output as if its runner had sent them, and returns the number of the last
        stored one.
        """
        self._context, self._append = context, append
        #: Position of the next portion of each run; 0 if it is absent.
        self._positions: dict[tuple[str, int], int] = {}
        #: Portions that are being read, by run.
        self._readings: dict[tuple[str, int], asyncio.Task[LeftOutputs]] = {}
        #: Since when, by the time awake, the files of a run have not answered.
        self._silent_since: dict[tuple[str, int], float] = {}
        #: The run that was read last; the next one begins the next step.
        self._last = ("", 0)

    async def store_portions(self) -> None:
        """Store a portion of the outputs of each ended run; forget a run once all of its outputs are stored.

        After `BUDGET` seconds no further run is begun, and the next step goes on behind the last one. A run remains
        while the disk is full, while its files do not answer, but not for ever, or if an unexpected error sets its job
        aside. A run whose files cannot be read is forgotten.
        """
        elapsed = self._context.clock.elapsed
        began = elapsed()
        for key in sorted(self._context.ended_runs, key=lambda key: (key <= self._last, key)):
            if elapsed() - began > BUDGET:
                self._context.wake()
                return
            self._last = key
            with self._context.set_aside.handling(key[0], "storing the last outputs"):
                if await self._store_portion(*key):
                    self._context.ended_runs.discard(key)
                    self._silent_since.pop(key, None)
                    if self._positions.pop(key, None) is not None:
                        self._announce_end(key[0])

    def _announce_end(self, job: str) -> None:
        """Tell the owner that no output will follow: an earlier page of outputs said that more would."""
        record = self._context.records.get(job)
        if record is not None:
            change = {"job": job, "last_seq": self._context.last_seq(job)}
            self._context.broker.announce(record.workload.owner, "output", job, change)

    async def _store_portion(self, workload: str, run: int) -> bool:
        """Store the next portion of an ended run; return True if nothing is left to store.

        False means that more follow, and the loop is woken, or that the disk is full, or that the files have not
        answered yet. True also for an unknown job, and for outputs that cannot be read, which is logged. A piece that
        the service would refuse is replaced by a substitute.
        """
        record = self._context.records.get(workload)
        if record is None or record.workload.kind is not Kind.TRAINING:
            self._readings.pop((workload, run), None)
            return True
        key = (workload, run)
        try:
            found = await self._read_portion(key, record.workload.owner)
            if found is None:
                return False
            self._silent_since.pop(key, None)
            pieces = [piece if _is_valid(piece) else make_substitute(piece) for piece in found.pieces]
            pieces = [piece for piece in pieces if _is_valid(piece)]
            if pieces:
                self._append(workload, pieces)
        except StorageFull:
            return False
        except UnansweredFile as error:
            return error.asked and self._gives_up(record.workload, key)
        except (UnusableFile, BackendError, NotFound, OSError) as error:
            log.warning("the last outputs of run %d of %s cannot be stored: %s", run, workload, error)
            return True
        if found.following is None:
            return True
        self._positions[key] = found.following
        self._context.wake()
        return False

    def _gives_up(self, workload: Workload, key: tuple[str, int]) -> bool:
        """Return whether the files of a run have been silent for too long; tell the owner, unless the job goes on."""
        awake = self._context.clock.awake()
        if awake - self._silent_since.setdefault(key, awake) < LEAST_SILENCE:
            return False
        if workload.state not in FINAL and workload.state is not State.PENDING:
            told = "the last outputs of run %d of %s are left out: its files do not answer, and the next run has begun"
            log.warning(told, key[1], key[0])
            return True
        ended = workload.requeued_at if workload.state is State.PENDING else workload.finished_at
        if ended is not None and self._context.clock.now() - ended < LONGEST_SILENCE:
            return False
        try:
            self._tell_loss(workload.id, key[1])
        except StorageFull:  # of this one run only: the step goes on
            return False
        log.warning("the last outputs of run %d of %s are given up: its files do not answer", key[1], key[0])
        return True

    def _tell_loss(self, job: str, run: int) -> None:
        """Say under the cell that ran last that its output is not complete; a job that ran no cell has none."""
        last = self._context.last_seq(job)
        stored = self._context.store.outputs(job, max(0, last - _MOST_SEARCHED.entries), _MOST_SEARCHED)
        cells = [piece.payload for piece in stored if "cell" in piece.payload]
        if cells:
            place: JsonObject = {name: cells[-1][name] for name in ("cell", "role") if name in cells[-1]}
            notice: JsonObject = {"seq": last + 1, "run": run, "at": self._context.clock.now(), "op": "append", **place}
            self._append(job, [{**notice, "output": make_notice(UNREADABLE)}])
            self._positions.setdefault((job, run), 0)  # so that the owner is told that the output is complete

    async def _read_portion(self, key: tuple[str, int], owner: str) -> LeftOutputs | None:
        """Return the next portion of a run; None after `PATIENCE` seconds, and at once in later steps.

        Raises the error of the reading.
        """
        reading, patience = self._readings.get(key), 0.0
        if reading is None:
            read, position = self._context.bundles.left_outputs, self._positions.get(key, 0)
            reading = asyncio.create_task(_threads.run(owner, read, key[0], owner, key[1], position))
            self._readings[key], patience = reading, PATIENCE
        await asyncio.wait([reading], timeout=patience)
        if not reading.done():
            return None
        del self._readings[key]
        return reading.result()


def _is_valid(piece: JsonObject) -> bool:
    """Tell whether the service takes this piece from a runner."""
    try:
        _PIECE.validate_python(piece)
    except ValidationError:
        return False
    return True

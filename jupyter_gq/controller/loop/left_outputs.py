"""The outputs that ended runs have left on this machine, because the service did not take them in time.

A run ends without waiting for the delivery of its last outputs, so that its devices are free. The service then reads
these outputs itself, a portion in each step, and only after that lets the backend forget the run. So the rest is stored
also after a restart of the service, and whenever its disk has room again.

See docs/decisions/0079-let-the-service-read-the-last-outputs.md.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from pydantic import TypeAdapter, ValidationError

from jupyter_gq.client.models import SentOutputEvent
from jupyter_gq.client.outputs import make_substitute
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import BackendError, NotFound, StorageFull, UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind

log = logging.getLogger(__name__)

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

    def store_portions(self) -> None:
        """Store the next portion of the outputs of each ended run; forget a run once all of its outputs are stored.

        A run remains while the disk is full. A run whose files cannot be read is removed.
        """
        for key in sorted(self._context.ended_runs):
            attempt = partial(self._store_portion, *key)
            if self._context.set_aside.attempt(key[0], "storing the last outputs", attempt):
                self._context.ended_runs.discard(key)
                if self._positions.pop(key, None) is not None:
                    self._announce_end(key[0])

    def _announce_end(self, job: str) -> None:
        """Tell the owner that no output will follow: an earlier page of outputs said that more would."""
        record = self._context.records.get(job)
        if record is not None:
            change = {"job": job, "last_seq": self._context.last_seq(job)}
            self._context.broker.announce(record.workload.owner, "output", job, change)

    def _store_portion(self, workload: str, run: int) -> bool:
        """Store the next portion of an ended run; return True if nothing is left to store.

        False means that more follow, and the loop is woken, or that the disk is full. True also for an unknown job, and
        for outputs that cannot be read, which is logged. A piece that the service would refuse is replaced by a
        substitute.
        """
        record = self._context.records.get(workload)
        if record is None or record.workload.kind is not Kind.TRAINING:
            return True
        key = (workload, run)
        try:
            found = self._context.bundles.left_outputs(
                workload, record.workload.owner, run, self._positions.get(key, 0)
            )
            pieces = [piece if _is_valid(piece) else make_substitute(piece) for piece in found.pieces]
            pieces = [piece for piece in pieces if _is_valid(piece)]
            if pieces:
                self._append(workload, pieces)
        except StorageFull:
            return False
        except (UnusableFile, BackendError, NotFound, OSError) as error:
            log.warning("the last outputs of run %d of %s cannot be stored: %s", run, workload, error)
            return True
        if found.following is None:
            return True
        self._positions[key] = found.following
        self._context.wake()
        return False


def _is_valid(piece: JsonObject) -> bool:
    """Tell whether the service takes this piece from a runner."""
    try:
        _PIECE.validate_python(piece)
    except ValidationError:
        return False
    return True

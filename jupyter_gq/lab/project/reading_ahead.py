"""The reading of a project before the dialog asks for it: soon after the cells that import its modules began to run.

See docs/decisions/0498-read-modules-once-their-cells-ran.md.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from logging import Logger
from pathlib import Path

from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.code_reading import read_code
from jupyter_gq.lab.reading.parsing import MOST_CHARACTERS

from .needed import Caps, Code, find_needed

#: Seconds without a new cell after which reading begins: until then, the kernel needs the processors itself.
PAUSE = 1.0
#: Most sources of cells that are remembered as read, by their digests.
_MOST_REMEMBERED = 1000
#: Most characters of all sources that wait: a file system that does not answer may hold up the reading for ever.
_MOST_WAITING = 8 * MOST_CHARACTERS
#: Most searches of the same cells. One that takes too long is cut, and the next one finds read what it has read.
_MOST_SEARCHES = 3


class ReadingAhead:
    """A task that reads the modules which cells import, so that the plan of these cells finds them read.

    Modules are kept as `find_needed` keeps them, which reads a module again only if its file has changed.
    """

    def __init__(self, max_file_bytes: int, log: Logger, pause: float = PAUSE) -> None:
        """Read for the plans of a server whose jobs take files up to `max_file_bytes` along.

        `pause` is the time in seconds without a new cell after which reading begins.
        """
        self._caps = Caps(file=max_file_bytes, job=2**63)  # the service knows the cap of a job
        self._log, self._pause = log, pause
        #: The sources that are to be read or are being read, without repetitions, by the working folders.
        self._waiting: dict[Path, dict[str, None]] = {}
        self._remembered: dict[tuple[Path, bytes], None] = {}
        #: Whether a cell was noted since the last look.
        self._is_new = False
        self._task: asyncio.Task[None] | None = None

    def note_cells(self, folder: Path, sources: Sequence[str]) -> None:
        """Read soon what these cells import, which have begun to run in a kernel with this working folder.

        A source that was read before, that waits to be read, that imports nothing or is too large to be parsed is
        skipped, and so is one for which there is no room.
        """
        waiting = self._waiting.get(folder, {})
        new = [each for each in sources if "import" in each and each not in waiting and len(each) <= MOST_CHARACTERS]
        new = [each for each in new if _make_key(folder, each) not in self._remembered]
        if not new or self._count_waiting() + sum(map(len, new)) > _MOST_WAITING:
            return
        self._is_new = True
        self._waiting.setdefault(folder, {}).update(dict.fromkeys(new))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_waiting(), name="jupyter-gq reading ahead")

    async def finish(self) -> None:
        """Wait until all that was noted has been read."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Stop reading; what has begun ends in its thread."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read_waiting(self) -> None:
        while self._waiting:
            while self._is_new:
                self._is_new = False
                await asyncio.sleep(self._pause)
            folder, waiting = next(iter(self._waiting.items()))
            sources = list(waiting)
            await self._search(folder, sources)
            for each in sources:  # new sources may be there by now
                del waiting[each]
            if not waiting:
                del self._waiting[folder]
            self._remember(folder, sources)

    async def _search(self, folder: Path, sources: Sequence[str]) -> None:
        """Read what these cells import; log a failure."""
        try:
            for _ in range(_MOST_SEARCHES):
                if await read_code(_read, folder, sources, self._caps):
                    break
        except Exception:  # noqa: BLE001 - the last guard: any file may be in the folder, and other cells wait
            self._log.info("the modules of %s could not be read ahead", folder, exc_info=True)

    def _count_waiting(self) -> int:
        """Return the number of characters of all sources that wait or are being read."""
        return sum(len(each) for sources in self._waiting.values() for each in sources)

    def _remember(self, folder: Path, sources: Sequence[str]) -> None:
        self._remembered.update(dict.fromkeys(_make_key(folder, each) for each in sources))
        while len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]


def _make_key(folder: Path, source: str) -> tuple[Path, bytes]:
    """Return what stands for the source of a cell in a folder: the sources themselves may have many MiB."""
    return folder, hashlib.blake2b(source.encode(errors="surrogatepass"), digest_size=16).digest()


def _read(folder: Path, sources: Sequence[str], caps: Caps) -> bool:
    """Read the modules of a folder that cells with these sources import; return whether there was time for all."""
    trees = [tree for source in sources if (tree := parse_cell(source)) is not None]
    return not find_needed(folder, Code(trees=trees), (), caps).cut_short

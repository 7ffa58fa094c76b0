"""The files of a job: their names, and atomic writing.

    bundle.json  carried/  checkpoint/  output.ipynb  results.json  results/{vars,files}/
    runs/<n>/<task>/{token,spool.jsonl,stop,stop_seen,progress.json,result.json}

`result.json` is written last. Room for it and for `stop` is reserved at the start, so that a run on a full disk can be
stopped, and can report its result.
"""

import json
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jupyter_gq.client.files.checkpoint_folder import CHECKPOINTS
from jupyter_gq.client.files.user_files import SMALL_FILE, read_json
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.reserved import reserve_room, write_reserved

_MOST_CHECKPOINTS = 10_000
#: The latest time that is believed, in seconds since the epoch.
_LATEST = 1e11


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """The folder of one task of one run."""

    #: The job's folder.
    job: Path
    #: Number of the run, from 1.
    run: int
    #: Number of the task, from 0; only task 0 delivers outputs.
    task: int

    @property
    def path(self) -> Path:
        """The folder of this run and task."""
        return self.folder_of(self.run)

    @property
    def checkpoint(self) -> Path:
        """The folder of checkpoints, which all runs of the job share."""
        return self.job / CHECKPOINTS

    @property
    def carried(self) -> Path:
        """The folder of the pickled variables that the job took along."""
        return self.job / "carried"

    @property
    def notebook(self) -> Path:
        """The path of the executed notebook, which all runs of the job share."""
        return self.job / "output.ipynb"

    @property
    def results(self) -> Path:
        """The folder of the variables that the job returns and of the files that its cells put there."""
        return self.job / "results"

    @property
    def results_record(self) -> Path:
        """The path of the list of results, which is written when the cells have ended."""
        return self.job / "results.json"

    @property
    def spool(self) -> Path:
        """The file of numbered output pieces of this run."""
        return self.path / "spool.jsonl"

    @property
    def stop(self) -> Path:
        """The file that exists once the run was told to stop."""
        return self.path / "stop"

    @property
    def stop_seen(self) -> bool:
        """Whether the user's code has called `should_stop` and was told to stop."""
        return (self.path / "stop_seen").exists()

    def folder_of(self, run: int) -> Path:
        """Return the folder of this task in the given run."""
        return self.job / "runs" / str(run) / str(self.task)

    def earlier_spools(self) -> list[Path]:
        """Return the spool files of this task's earlier runs that exist, oldest first."""
        spools = (self.folder_of(run) / "spool.jsonl" for run in range(1, self.run))
        return [spool for spool in spools if spool.exists()]

    def prepare(self) -> None:
        """Make the folders of run, checkpoints and results, and reserve disk space for the result and the stop."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.results / "files").mkdir(mode=0o700, parents=True, exist_ok=True)
        reserve_room(self.path / "result.json")
        reserve_room(self.stop)

    def take_token(self) -> str:
        """Return the job's token and delete its file; return "" if there is no file."""
        file = self.path / "token"
        try:
            token = file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""
        file.unlink()
        return token

    def progress(self) -> tuple[float | None, str] | None:
        """Return (fraction, text) of the last call of `jupyter_gq.progress`; None if there is no readable one.

        The fraction is limited to 0 to 1, and may be None; the text is cut to 500 characters.
        """
        try:
            said = read_json(self.path / "progress.json", limit=SMALL_FILE)
            if said is None:
                return None
            fraction = said["fraction"]
            return (None if fraction is None else min(1.0, max(0.0, float(fraction))), str(said["text"])[:500])
        except (UnusableFile, ArithmeticError, ValueError, KeyError, TypeError):
            return None

    def saved_at(self) -> float | None:
        """Return when a file in the checkpoint folder was last written, in seconds since the epoch; None if unknown.

        Only the first `_MOST_CHECKPOINTS` entries count, so that the heartbeat does not wait for a folder of millions.
        """
        try:
            with os.scandir(self.checkpoint) as entries:
                first = islice(entries, _MOST_CHECKPOINTS)
                saved = (entry.stat(follow_symlinks=False).st_mtime for entry in first)
                return max((at for at in saved if 0 <= at <= _LATEST), default=None)  # user code can set any time
        except OSError:
            return None

    def write_result(self, result: JsonObject) -> None:
        """Write `result.json` into the reserved room; that works on a full disk too."""
        write_reserved(self.path / "result.json", json.dumps(result).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one, never a part.

    Raises `OSError` if the disk does not take the content; the old file then stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise

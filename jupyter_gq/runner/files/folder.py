"""The files of a job: names, and writing that leaves each file whole.

    bundle.json  checkpoint/  output.ipynb  runs/<n>/<task>/{token,spool.jsonl,stop,stop_seen,progress.json,result.json}

`result.json` is written last. Room for it is taken at the start, so that a full disk can be reported.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RESERVED = 8192


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """Where one task of one run keeps its files."""

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
        """Kept over pauses."""
        return self.job / "checkpoint"

    @property
    def notebook(self) -> Path:
        """The executed notebook so far."""
        return self.job / "output.ipynb"

    @property
    def spool(self) -> Path:
        """Numbered pieces of output of this run."""
        return self.path / "spool.jsonl"

    @property
    def stop(self) -> Path:
        """Exists once the run was told to end."""
        return self.path / "stop"

    @property
    def stop_seen(self) -> bool:
        """The user's code knows that it should end."""
        return (self.path / "stop_seen").exists()

    def folder_of(self, run: int) -> Path:
        """The folder of this task in that run."""
        return self.job / "runs" / str(run) / str(self.task)

    def earlier_spools(self) -> list[Path]:
        """Spools of earlier runs, oldest first."""
        spools = (self.folder_of(run) / "spool.jsonl" for run in range(1, self.run))
        return [spool for spool in spools if spool.exists()]

    def prepare(self) -> None:
        """Make the folders, and take the room that the result will need."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.path / "result.reserve").write_bytes(b" " * _RESERVED)

    def take_token(self) -> str:
        """Read the job's token and remove its file; empty when there is none."""
        file = self.path / "token"
        try:
            token = file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""
        file.unlink()
        return token

    def progress(self) -> tuple[float | None, str] | None:
        """What the code last said with `jupyter_gq.progress`; None when it said nothing that can be read."""
        try:
            said = json.loads((self.path / "progress.json").read_text(encoding="utf-8"))
            fraction = said["fraction"]
            return (None if fraction is None else float(fraction), str(said["text"])[:500])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def saved_at(self) -> float | None:
        """When something in the folder for checkpoints was last written; None when that is not known."""
        try:
            with os.scandir(self.checkpoint) as entries:
                return max((entry.stat().st_mtime for entry in entries), default=None)
        except OSError:
            return None

    def write_result(self, result: dict[str, Any]) -> None:
        """Say how the run ended, in place of the room that was reserved: this works on a full disk too."""
        reserve = self.path / "result.reserve"
        content = json.dumps(result).encode()
        with open(reserve, "r+b" if reserve.exists() else "wb") as file:
            file.write(content)
            file.truncate()
        reserve.replace(self.path / "result.json")


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file; whoever reads it sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise

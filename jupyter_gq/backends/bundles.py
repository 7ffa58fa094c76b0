"""Where the files of a job are: its bundle, its executed notebook, its log. One implementation beside each backend.

Guarantees
----------
1. `write` leaves everything or nothing.
2. Only the job's owner can read what is written for him.
3. Reading never follows the owner's links to somebody else's files.
"""

import json
from typing import Protocol

from jupyter_gq.domain.errors import TooLarge
from jupyter_gq.domain.json_types import JsonObject

_MIB = 1024 * 1024


class BundleStore(Protocol):
    """Keeps the files of jobs."""

    @property
    def pod_files(self) -> "PodFiles | None":
        """The files as pods read and write them; None where runners use the disk of this machine."""
        ...

    def write(self, job: str, owner: str, bundle: JsonObject, max_bytes: int) -> None:
        """Keep the bundle of a new job.

        Raises `TooLarge` above `max_bytes`, `StorageFull` when the disk or a quota refuses it, and `BackendError`
        when there is nobody on this machine to give it to.
        """
        ...

    def executed_notebook(self, job: str, owner: str) -> JsonObject | None:
        """The notebook with the outputs so far; None before there is one."""
        ...

    def log(self, job: str, owner: str, tail: int) -> str | None:
        """The last `tail` bytes of the newest run's log; None before there is one."""
        ...

    def delete(self, job: str, owner: str) -> None:
        """Forget all files of the job. No error if there are none."""
        ...


class PodFiles(Protocol):
    """A store of files from which runners fetch what they need, and to which they send their logs."""

    def bundle(self, job: str) -> JsonObject | None:
        """The bundle as it was written; None when there is none."""
        ...

    def put_log(self, job: str, run: int, task: int, text: str) -> None:
        """Replace what is kept of that task's log; a log of an earlier run than the newest is dropped."""
        ...


def written(bundle: JsonObject, max_bytes: int) -> bytes:
    """The bundle as it is kept; raises `TooLarge` above `max_bytes`."""
    content = json.dumps(bundle).encode()
    if len(content) > max_bytes:
        raise TooLarge(
            f"What would be sent is {len(content) / _MIB:.1f} MiB, but the limit is {max_bytes / _MIB:.1f} MiB. "
            "Keep large data in files that the job reads, not in the cells."
        )
    return content

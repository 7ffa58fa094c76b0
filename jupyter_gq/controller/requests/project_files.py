"""The requests about the files and the pickled variables that jobs take along.

Rules
-----
- Own parts only: a user learns which parts that user has sent, and never what another one has.
- Kept by jobs: a part is kept while a job has it, and for a day after it was sent or asked for; see `loop.retention`.
- Limits: files and variables of one job, and all parts of one user, have at most the bytes that the settings allow.
"""

import base64
import binascii
import hashlib
from collections.abc import Sequence

from jupyter_gq.client.frozen_files import PART_SIZE, list_part_sizes
from jupyter_gq.client.models import CarriedPickle, FileStore, FrozenFile, KeptResult, Manifest
from jupyter_gq.client.older_service import list_known_fields
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import Conflict, LimitReached, TooLarge, UserError
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import PageSize

#: Parts in one answer to a pod.
_PAGE = PageSize(entries=1000, size=PART_SIZE)
_MIB = 1024 * 1024


class ProjectFiles:
    """The files of projects that jobs take along."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self, caller: Caller, parts: Sequence[str]) -> FileStore:
        """Return which of these parts the caller must send, and what the service takes; these parts are kept a while.

        Raises `StoreUnavailable` if the database does not answer.
        """
        known = self._context.store.want_parts(caller.user, parts, self._context.clock.now()) if parts else frozenset()
        return FileStore(
            missing=[part for part in dict.fromkeys(parts) if part not in known],
            max_job_bytes=self._context.settings.max_job_file_bytes,
            reached=list(self._context.backend_of(Kind.TRAINING).capabilities.reached_folders),
            fields=list_known_fields(),
        )

    def add(self, owner: str, contents: Sequence[str]) -> None:
        """Store parts of files of this user, which are base64; a part that is stored already adds nothing.

        Raises `UserError` for other text, and `LimitReached` if the user's parts would exceed the limit.
        """
        parts = {hashlib.sha256(part).hexdigest(): part for part in map(_decode, contents)}
        limit, store, now = self._context.settings.max_user_file_bytes, self._context.store, self._context.clock.now()
        known = store.want_parts(owner, list(parts), now) if parts else frozenset()
        new = {digest: part for digest, part in parts.items() if digest not in known}
        if not new:
            return
        used = store.parts_size(owner)
        if used + sum(map(len, new.values())) > limit:
            raise LimitReached(
                f"The files that your jobs took along and brought back have {used / _MIB:.0f} MiB, and at most "
                f"{limit / _MIB:.0f} MiB are kept for you. Use fewer files, or wait until older jobs are deleted; your "
                "administrator can raise c.TrainingQueues.max_user_files_mib."
            )
        store.put_parts(owner, new, now)

    def keep(self, job: str, owner: str, manifest: Manifest) -> None:
        """Keep the parts of what a job takes along: its files, then its variables.

        Raises `TooLarge` or `Conflict` if that is not possible.
        """
        pickles = manifest.carried.pickles if manifest.carried else []
        contents: list[FrozenFile | CarriedPickle] = [*manifest.files, *pickles]
        limit, size = self._context.settings.max_job_file_bytes, sum(content.bytes for content in contents)
        if size > limit:
            raise TooLarge(
                f"The files and variables that would go along have {size / _MIB:.1f} MiB, but the limit is "
                f"{limit / _MIB:.1f} MiB. Leave large ones out."
            )
        # What is stored must be as large as what is claimed: the limits above count the claims.
        parts = _list_parts(contents)
        if parts and self._context.store.use_parts(job, owner, parts):
            raise Conflict(
                "Some files or variables that should go along are not here any more, or have another size. Send the "
                "cell again."
            )

    def read_all(self, job: str) -> bytes:
        """Return the contents of all files and variables that a job takes along, joined in the order of its parts."""
        found: list[bytes] = []
        while page := self._context.store.parts(job, len(found), _PAGE):
            found += page
        return b"".join(found)

    def read_next(self, job: str, start: int) -> bytes:
        """Return one page of what `read_all` returns: the part with the number `start`, from 0, and those after it.

        A page has about 4 MiB, and the page after the last part is empty. Callers count the parts by their known sizes.
        """
        return b"".join(self._context.store.parts(job, start, _PAGE))

    def keep_results(self, job: str, owner: str, contents: Sequence[KeptResult]) -> None:
        """Keep the parts of what a job brings back, in place of earlier ones; raise `TooLarge` or `Conflict` if not."""
        limit, size = self._context.settings.max_result_bytes, sum(content.bytes for content in contents)
        if size > limit:
            raise TooLarge(
                f"What the job brings back has {size / _MIB:.1f} MiB, but the limit is {limit / _MIB:.1f} MiB."
            )
        if self._context.store.use_result_parts(job, owner, _list_parts(contents)):
            raise Conflict("Some parts of what the job brings back are not here, or have another size.")


def _list_parts(contents: Sequence[FrozenFile | CarriedPickle | KeptResult]) -> list[tuple[str, int]]:
    """Return the parts of all contents in order, each with the size that it must have."""
    return [part for each in contents for part in zip(each.parts, list_part_sizes(each.bytes), strict=True)]


def _decode(content: str) -> bytes:
    """Return the part in a base64 text; raise `UserError` for another text, an empty or a too large part."""
    try:
        part = base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise UserError("The content of a part is not base64.") from error
    if not 0 < len(part) <= PART_SIZE:
        raise UserError(f"A part has 1 to {PART_SIZE} bytes, and not {len(part)}.")
    return part

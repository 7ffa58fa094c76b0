"""The requests about the files and the pickled variables that jobs take along.

Rules
-----
- Own parts only: a user learns which parts that user has sent, and never what another one has.
- Kept by jobs: a part is kept while a job has it, and for a day after it was sent or asked for; see
  `loop.cleaning.retention`.
- Lost parts are sent again: a part whose object at the URL is missing or damaged counts as not sent.
- Large parts may be at a URL: they are uploaded and fetched in threads, and the database has their names only.
- Limits: files and variables of one job, and all parts of one user, have at most the bytes that the settings allow.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence

from jupyter_gq.backends.contents import Contents, read_contents
from jupyter_gq.client.connection.older_service import list_known_fields
from jupyter_gq.client.files.frozen_files import PART_SIZE, list_part_sizes
from jupyter_gq.client.models import CarriedPickle, FileStore, FrozenFile, KeptResult, Manifest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import Conflict, LimitReached, TooLarge, UserError
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.outside import LEAST_OUTSIDE, Content
from jupyter_gq.store.protocol import PageSize

from .file_threads import run_in_content_thread

#: Parts in one answer to a pod.
_PAGE = PageSize(entries=1000, size=PART_SIZE)
_MIB = 1024 * 1024


class ProjectFiles:
    """The files of projects that jobs take along."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def describe(self, caller: Caller, parts: Sequence[str]) -> FileStore:
        """Return which of these parts the caller must send, and what the service accepts.

        `parts` are SHA-256 digests, as hex. Parts that are stored already are kept for a while from now on.
        Raises `StoreUnavailable` if the database does not answer.
        """
        known = self._find_known(caller.user, parts)[0]
        return FileStore(
            missing=[part for part in dict.fromkeys(parts) if part not in known],
            max_job_bytes=self._context.settings.max_job_file_bytes,
            reached=list(self._context.backend_of(Kind.TRAINING).capabilities.reached_folders),
            fields=list_known_fields(),
        )

    async def add(self, owner: str, contents: Sequence[str]) -> None:
        """Store parts of this user's files; a part that is stored already adds nothing.

        `contents` are the parts as base64. Raises `UserError` for other text, `LimitReached` if the user's parts would
        exceed the limit, and `ContentsUnavailable` if large parts cannot be stored outside the database.
        """
        parts = {hashlib.sha256(part).hexdigest(): part for part in map(_decode, contents)}
        new = self._choose_new(owner, parts)
        large = {digest: part for digest, part in new.items() if len(part) >= LEAST_OUTSIDE}
        if large and (outside := self._outside) is not None:
            stored = await run_in_content_thread(owner, outside.put, list(large.values()))
            kept: Mapping[str, Content] = {**new, **dict(zip(large, stored, strict=True))}
            # Asked again, since other requests of this user may have stored parts during the upload. What is uploaded
            # in vain is deleted by `loop.cleaning.orphaned_contents`.
            new = self._choose_new(owner, new)
        else:
            kept = new
        if new:
            self._context.store.put_parts(owner, {digest: kept[digest] for digest in new}, self._context.clock.now())

    @property
    def _outside(self) -> Contents | None:
        """The place of large contents outside the database; None if they are in the database too."""
        files = self._context.bundles.pod_files
        return None if files is None else files.contents

    def _choose_new(self, owner: str, parts: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the parts that are not stored yet; raise `LimitReached` if the user's parts would exceed the limit."""
        limit, store = self._context.settings.max_user_file_bytes, self._context.store
        known, counted = self._find_known(owner, list(parts))
        new = {digest: part for digest, part in parts.items() if digest not in known}
        more = sum(len(part) for digest, part in new.items() if digest not in counted)
        used = store.parts_size(owner) if more else 0
        if more and used + more > limit:
            raise LimitReached(
                f"The files that your jobs took along and brought back have {used / _MIB:.0f} MiB, and at most "
                f"{limit / _MIB:.0f} MiB are kept for you. Use fewer files, or wait until older jobs are deleted; your "
                "administrator can raise c.TrainingQueues.max_user_files_mib."
            )
        return new

    def _find_known(self, owner: str, parts: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return which of these parts the user need not send, and which have a row; the user wants all of them now.

        A part whose object is missing or damaged has a row and must be sent again.
        """
        store, lost = self._context.store, frozenset() if self._outside is None else self._outside.lost
        known = store.want_parts(owner, parts, self._context.clock.now()) if parts else frozenset()
        # The name of an object begins with the hash of its content, so most requests ask the database nothing more.
        suspected = sorted(known & {name.partition("-")[0] for name in lost})
        return known - (store.find_parts(owner, suspected, lost) if suspected else frozenset()), known

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
        """Return the contents of all files and variables that a job takes along, joined in the order of its parts.

        Raises the errors of `read_next`.
        """
        found: list[Content] = []
        while page := self._context.store.parts(job, len(found), _PAGE):
            found += page
        return b"".join(read_contents(self._outside, found))

    async def read_next(self, job: str, start: int) -> bytes:
        """Return one page of what `read_all` returns: the part with the number `start`, from 0, and those after it.

        A page has about 4 MiB, and the page after the last part is empty. Callers count the parts by their known sizes.
        Raises `ContentsUnavailable` or `NotFound` for a part outside the database that cannot be fetched or is gone.
        """
        page = self._context.store.parts(job, start, _PAGE)
        if all(isinstance(part, bytes) for part in page):
            return b"".join(read_contents(None, page))
        # Each job has turns of its own: a user's other requests wait for none of a starting job.
        return b"".join(await run_in_content_thread(job, read_contents, self._outside, page))

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

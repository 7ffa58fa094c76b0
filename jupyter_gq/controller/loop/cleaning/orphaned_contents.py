"""Garbage collection of contents outside the database that nothing in the database names any more.

Deleted jobs and unused parts leave objects, and so do a refused job and a service that was killed between an upload and
the record of it.

Rules
-----
Grace: an object is deleted once all sweeps for `GRACE` have found it without a name. An upload is recorded within
    minutes, so none is deleted that is being recorded. While the machine sleeps, the time stands still.

Never named again: each upload makes a new object, so an object without a name stays without one, unless an older backup
    of the database is restored.

After a restore: nothing is deleted for a week in which a service works, for another backup may be restored that names
    the objects. The seconds are stored.

Counted anew: the time begins again when a service starts, and when another database has claimed the objects; see
    `contents_owner`.

Bounded: a sweep deletes at most `_MOST_DELETED` objects, in portions, and begins no portion after `_LONGEST` seconds.
    A failure leaves the objects of its portion to the next sweep.

See docs/decisions/0376-delete-objects-that-nothing-names.md.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from jupyter_gq.backends.contents import Contents
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import ContentsUnavailable
from jupyter_gq.store.outside import RESTORED, RESTORED_HELD

from .contents_owner import ContentsOwner

log = logging.getLogger(__name__)

#: How long an object without a name is kept: shorter than a day, for some sites restart the service every night.
GRACE = Seconds(6 * 3600)
#: How long nothing is deleted after a backup was restored.
RESTORED_GRACE = Seconds(7 * 86400)
_MOST_DELETED, _PORTION = 10_000, 500
_LONGEST = 900.0


class OrphanedContents:
    """The sweeps for objects outside the database that the database does not name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: When a sweep first found each object without a name, in seconds awake: a record may be written after a sleep.
        self._since: dict[str, float] = {}
        #: Up to which time awake the wait after a restore is counted.
        self._counted = context.clock.awake()
        #: Named objects that were missing at the last sweep.
        self._missing: frozenset[str] = frozenset()
        self._owner = ContentsOwner(context)

    async def sweep(self, *, may_delete: bool = True) -> int:
        """Find the objects that the database does not name, and delete those whose `GRACE` has passed; return how many.

        Returns 0 if nothing is kept outside the database, if that place cannot be used now, if a backup was restored
        less than `RESTORED_GRACE` ago, or if `may_delete` is False. In all cases but the first, the claim of this
        database is renewed if possible. Also logs objects that the database names and that are missing.
        """
        files = self._context.bundles.pod_files
        contents = None if files is None else files.contents
        if contents is None:
            if files is not None:
                await asyncio.to_thread(self._warn_of_unreachable)
            return 0
        try:
            is_owner = await asyncio.to_thread(self._owner.confirm, contents)
            before = await asyncio.to_thread(self._context.store.outside_names)
            found = await asyncio.to_thread(contents.names)
            # Asked after the listing: what was recorded meanwhile has its name now.
            named = await asyncio.to_thread(self._context.store.outside_names)
            missing = (before & named) - found
            contents.note_lost(missing)
            self._report_missing(missing)
            now = self._context.clock.awake()
            self._since = {name: self._since.get(name, now) for name in found - named}
        except ContentsUnavailable:
            return 0  # the place itself logs why
        if not is_owner:
            self._since.clear()  # the grace begins when the other database lets go
            return 0
        if await asyncio.to_thread(self._waits) or not may_delete:
            return 0
        due = sorted(name for name, at in self._since.items() if now - at >= GRACE)[:_MOST_DELETED]
        deleted = await self._delete(contents, due, self._context.clock.elapsed() + _LONGEST)
        if deleted:
            log.info("%d contents outside the database that nothing names any more were deleted", deleted)
        return deleted

    def _warn_of_unreachable(self) -> None:
        """Tell administrators if contents are outside the database although no place for them is set."""
        told, count = "", len(self._context.store.outside_names())
        if count:
            told = (
                f"{count} contents of jobs are at a URL, but KubernetesBackend.bundle_url is not set any more. Set it "
                "again; until then these jobs cannot start, and their results cannot be read."
            )
        if told and told != self._context.contents_warning:
            log.warning("%s", told)
        self._context.contents_warning = told

    def _waits(self) -> bool:
        """Return whether a backup was restored less than a week of work ago, and store the time of work."""
        context, now = self._context, self._context.clock.awake()
        more, self._counted = now - self._counted, now
        held: float = (context.store.setting(RESTORED) or {}).get(RESTORED_HELD, RESTORED_GRACE)
        if held >= RESTORED_GRACE:
            return False
        context.store.put_setting(RESTORED, {RESTORED_HELD: held + more})
        return held + more < RESTORED_GRACE

    async def _delete(self, contents: Contents, due: Sequence[str], until: float) -> int:
        """Delete objects in portions; return how many are gone. No portion begins after `until`."""
        deleted = 0
        for first in range(0, len(due), _PORTION):
            if self._context.clock.elapsed() > until:
                break
            portion = due[first : first + _PORTION]
            with suppress(ContentsUnavailable):  # the place itself logs why
                await asyncio.to_thread(contents.delete, portion)
                deleted += len(portion)
                for name in portion:
                    del self._since[name]
        return deleted

    def _report_missing(self, missing: frozenset[str]) -> None:
        """Log that objects are missing which the database names, once for each of them."""
        if new := missing - self._missing:
            log.error(
                "%d contents that the database names are not at KubernetesBackend.bundle_url, such as %s. Jobs that "
                "need them cannot start, and their results cannot be read",
                len(new),
                min(new),
            )
        self._missing = missing

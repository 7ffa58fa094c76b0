"""The requests of administrators about the audit log."""

from jupyter_gq.client.models import AuditEntryView, AuditPage
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.audit import AuditEntry, AuditFilter


class AuditReader:
    """The reader of the audit log. The API gives it to administrators only."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def page(self, wanted: AuditFilter, *, before: int | None, limit: int) -> AuditPage:
        """Return at most `limit` entries that the filter lets through, newest first, and the `before` of the next page.

        Only entries older than the entry with the id `before` are returned, or all if it is None. On the last page
        `next` is None.
        """
        found = self._context.store.audit(wanted, before=before, limit=limit + 1)
        shown = found[:limit]
        return AuditPage(entries=[_view(entry) for entry in shown], next=shown[-1].id if len(found) > limit else None)


def _view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        id=entry.id,
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        object=entry.object,
        owner=entry.owner,
        details=dict(entry.details),
    )

"""The requests of administrators about the audit log."""

from jupyter_gq.client.models import AuditEntryView, AuditPage
from jupyter_gq.controller.settings.config import SettingsSource
from jupyter_gq.domain.audit import AuditEntry, AuditFilter
from jupyter_gq.store.protocol import PageSize, Store


class AuditReader:
    """The reader of the audit log. The API gives it to administrators only."""

    def __init__(self, store: Store, settings: SettingsSource) -> None:
        self._store, self._settings = store, settings

    def page(self, wanted: AuditFilter, *, before: int | None, limit: int) -> AuditPage:
        """Return at most `limit` entries that the filter lets through, newest first, and the `before` of the next page.

        Only entries older than the entry with the id `before` are returned, or all if it is None. A page has fewer
        entries than `limit` if its bytes would be more than the settings allow. On the last page `next` is None.
        """
        store, page = self._store, PageSize(entries=limit, size=self._settings.current.max_page_bytes)
        found = store.audit(wanted, page, before=before)
        last = found[-1].id if found else None
        more = last is not None and store.audit(wanted, PageSize(entries=1), before=last)
        return AuditPage(entries=[_view(entry) for entry in found], next=last if more else None)


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

"""The route of the audit log."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import refusal
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditFilter
from jupyter_gq.domain.plain_text import quoted


def read_audit_log(call: Call) -> Reply:
    """Answer with a page of the audit log, newest entries first; for admins.

    Raises a refusal of 422 if the query names an unknown action.
    """
    wanted = AuditFilter(
        since=_instant(call, "since"),
        until=_instant(call, "until"),
        actor=call.optional_text("actor"),
        action=_action(call),
        object=call.optional_text("object"),
        owner=call.optional_text("owner"),
    )
    page = call.services.audit.page(wanted, before=call.optional_integer("before"), limit=call.integer("limit"))
    return Reply(body=page)


def _instant(call: Call, name: str) -> Instant | None:
    seconds = call.optional_integer(name)
    return None if seconds is None else Instant(seconds)


def _action(call: Call) -> Action | None:
    """Return the action of the query; raise a refusal of 422 that lists the actions if there is no such action."""
    given = call.optional_text("action")
    if given is None:
        return None
    try:
        return Action(given)
    except ValueError as error:
        message = f"action: one of {', '.join(Action)} was expected, not {quoted(given)}."
        raise refusal(422, "invalid_request", message, field="action") from error

"""Entries of the audit log about workloads."""

from jupyter_gq.controller.caller import Caller
from jupyter_gq.domain.amount import Instant, format_gpus
from jupyter_gq.domain.audit import SCHEDULER, Action, AuditEntry
from jupyter_gq.domain.json_types import JsonValue
from jupyter_gq.domain.workload import Kind, Workload


def act_of(caller: Caller, action: Action, workload: Workload, at: Instant, **details: JsonValue) -> AuditEntry:
    """Return the entry of an act of a caller.

    The detail `as_admin` or `as_manager` marks an act on the work of another user.
    """
    if caller.user != workload.owner:
        details["as_admin" if caller.admin else "as_manager"] = True
    return _make_entry(caller.user, action, workload, at, details)


def act_of_scheduler(action: Action, workload: Workload, at: Instant, **details: JsonValue) -> AuditEntry:
    """Return the entry of an act of the scheduler itself."""
    return _make_entry(SCHEDULER, action, workload, at, details)


def _make_entry(
    actor: str, action: Action, workload: Workload, at: Instant, details: dict[str, JsonValue]
) -> AuditEntry:
    """Return the entry of an act on a workload, with what the workload asks for."""
    described: dict[str, JsonValue] = {"name": workload.name, "gpus": format_gpus(workload.milli)}
    if workload.kind is Kind.TRAINING:
        described |= {"queue": workload.queue}
    return AuditEntry(
        at=at,
        actor=actor,
        action=action,
        object=workload.id,
        owner=workload.owner,
        details={**described, **{name: value for name, value in details.items() if value is not None}},
    )

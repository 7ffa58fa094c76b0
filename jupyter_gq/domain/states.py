"""The states of a workload, and the one table of its transitions.

Rules
-----
1. Only `apply` computes a next state; only the controller writes it down.
2. An impossible (state, event) pair raises `IllegalTransition` and changes nothing.
3. A workload holds its devices from ADMITTED until it is final or PENDING again; SUSPENDED keeps its
   quota but gives up its bytes.
4. The diagram of the documentation is generated from `TRANSITIONS`.
"""

from enum import StrEnum

from .errors import IllegalTransition


class State(StrEnum):
    """Where a workload is in its life."""

    PENDING = "PENDING"
    ADMITTED = "ADMITTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    RESUMING = "RESUMING"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Event(StrEnum):
    """What happened to a workload."""

    ADMITTED = "Admitted"
    LAUNCHED = "Launched"
    STARTED = "Started"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    STOP_REQUESTED = "StopRequested"
    REQUEUED = "Requeued"
    LOST = "Lost"
    SUSPENDED = "Suspended"
    RESUME_ADMITTED = "ResumeAdmitted"
    RESUMED = "Resumed"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.PENDING: {Event.ADMITTED: State.ADMITTED, Event.CANCELLED: State.CANCELLED, Event.FAILED: State.FAILED},
    State.ADMITTED: {
        Event.LAUNCHED: State.STARTING,
        Event.REQUEUED: State.PENDING,
        Event.CANCELLED: State.CANCELLED,
        Event.FAILED: State.FAILED,
    },
    State.STARTING: {
        Event.STARTED: State.RUNNING,
        Event.SUCCEEDED: State.SUCCEEDED,
        Event.FAILED: State.FAILED,
        Event.STOP_REQUESTED: State.STOPPING,
        Event.LOST: State.PENDING,
    },
    State.RUNNING: {
        Event.SUCCEEDED: State.SUCCEEDED,
        Event.FAILED: State.FAILED,
        Event.STOP_REQUESTED: State.STOPPING,
        Event.SUSPENDED: State.SUSPENDED,
        Event.LOST: State.PENDING,
    },
    State.SUSPENDED: {
        Event.RESUME_ADMITTED: State.RESUMING,
        Event.STOP_REQUESTED: State.STOPPING,
        Event.FAILED: State.FAILED,
        Event.LOST: State.PENDING,
    },
    State.RESUMING: {Event.RESUMED: State.RUNNING, Event.FAILED: State.FAILED},
    State.STOPPING: {
        Event.REQUEUED: State.PENDING,
        Event.CANCELLED: State.CANCELLED,
        Event.SUCCEEDED: State.SUCCEEDED,
        Event.FAILED: State.FAILED,
        Event.LOST: State.PENDING,
    },
    State.SUCCEEDED: {},
    State.FAILED: {},
    State.CANCELLED: {},
}

FINAL = frozenset(state for state, leaves in TRANSITIONS.items() if not leaves)
#: States in which quota and devices are held.
HOLDING = frozenset({State.ADMITTED, State.STARTING, State.RUNNING, State.SUSPENDED, State.RESUMING, State.STOPPING})


def apply(workload: str, state: State, event: Event) -> State:
    """The state after `event`; raise `IllegalTransition` when the table has no such arrow."""
    try:
        return TRANSITIONS[state][event]
    except KeyError as error:
        raise IllegalTransition(workload, state, event) from error

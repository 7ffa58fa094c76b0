"""The states of a workload, and the one table of its transitions.

Rules
-----
One function: only `apply` computes a next state, and only the records of the controller store it.

Illegal pairs: a (state, event) pair that the table does not have raises `IllegalTransition` and changes nothing.

Holding: a workload holds its devices from ADMITTED until it is final or PENDING again. A SUSPENDED one keeps its quota
and gives up its bytes.

One table: the diagram of the documentation is generated from `TRANSITIONS`.
"""

from enum import StrEnum

from .errors import IllegalTransition


class State(StrEnum):
    """The state of a workload."""

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
    """An event that moves a workload to another state."""

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
        Event.SUCCEEDED: State.SUCCEEDED,
        Event.FAILED: State.FAILED,
        Event.STOP_REQUESTED: State.STOPPING,
        Event.LOST: State.PENDING,
    },
    State.RESUMING: {
        Event.RESUMED: State.RUNNING,
        Event.SUCCEEDED: State.SUCCEEDED,
        Event.FAILED: State.FAILED,
        Event.STOP_REQUESTED: State.STOPPING,
        Event.LOST: State.PENDING,
    },
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
    """Return the state after `event`; raise `IllegalTransition` if the table does not allow the event in `state`."""
    try:
        return TRANSITIONS[state][event]
    except KeyError as error:
        raise IllegalTransition(workload, state, event) from error

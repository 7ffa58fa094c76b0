"""The phases of a run in the Kubernetes backend, and the one table of their transitions.

A run is one try of a job, or one ticket of a notebook. The phase of a run is finer than the `Phase` that the controller
is told (STARTING, RUNNING, ENDED), and coarser than the states of its pods.

See docs/decisions/0062-give-a-run-on-kubernetes-a-table-of-phases.md.

Rules
-----
- The single-writer rule: only `Run.apply` assigns a phase, and only `next_phase` computes one.
- The no-surprise rule: a pair of phase and event that the table does not have raises `IllegalTransition` and changes
  nothing.
- The creation rule: pods are created for a run in WAITING or CREATING, and in no other phase.
- The first-verdict rule: a verdict on a run is never replaced by another. A request to stop replaces a refusal: a job
  that shall stop needs no place any more.
- The last-pod rule: a run that still creates pods never just ends. First it is stopped, released, refused or aborted.
- The diagram of the documentation is generated from `TRANSITIONS`.
"""

from collections.abc import Mapping
from enum import StrEnum

from jupyter_gq.domain.errors import IllegalTransition


class RunPhase(StrEnum):
    """The phase of a run; `MEANINGS` describes each."""

    KNOWN = "KNOWN"
    WAITING = "WAITING"
    CREATING = "CREATING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RELEASED = "RELEASED"
    STOPPING = "STOPPING"
    REFUSING = "REFUSING"
    ABORTING = "ABORTING"
    ENDED = "ENDED"
    REMOVING = "REMOVING"


class RunEvent(StrEnum):
    """An event that may change the phase of a run; `CAUSES` describes each."""

    LAUNCHED = "Launched"
    DEVICES_READY = "DevicesReady"
    DEVICES_WITHDRAWN = "DevicesWithdrawn"
    PODS_SEEN = "PodsSeen"
    BEGAN = "Began"
    RELEASED = "Released"
    STOP_REQUESTED = "StopRequested"
    REFUSED = "Refused"
    ABORTED = "Aborted"
    FINISHED = "Finished"
    FORGOTTEN = "Forgotten"


MEANINGS: Mapping[RunPhase, str] = {
    RunPhase.KNOWN: "The run was found by its pods, or the controller says that it already runs. Its pods are looked "
    "for, and none is created.",
    RunPhase.WAITING: "The devices of the run are being prepared. No pod may be created yet.",
    RunPhase.CREATING: "The devices are ready and a pod is missing. The backend creates the pods of a job; the spawner "
    "creates the pod of a notebook.",
    RunPhase.STARTING: "Every task has a pod, and at least one has not begun.",
    RunPhase.RUNNING: "Every task has begun.",
    RunPhase.RELEASED: "The spawner gave the ticket of a notebook back, and ends the pod itself.",
    RunPhase.STOPPING: "The controller asked for the end of the run.",
    RunPhase.REFUSING: "The run cannot have its place, and will be planned again. Its pods are being deleted.",
    RunPhase.ABORTING: "The run was lost, has failed or must not go on. Its pods are being deleted.",
    RunPhase.ENDED: "The work of every task has ended. The result is reported until the controller has recorded it.",
    RunPhase.REMOVING: "The controller has recorded the result. What is left in the cluster is being deleted.",
}

CAUSES: Mapping[RunEvent, str] = {
    RunEvent.LAUNCHED: "The controller launches the run, and its pods are to be created.",
    RunEvent.DEVICES_READY: "The devices of every task are ready.",
    RunEvent.DEVICES_WITHDRAWN: "A device of a notebook is not ready any more, and its pod is not there yet.",
    RunEvent.PODS_SEEN: "A pod of every task was seen.",
    RunEvent.BEGAN: "Every task has begun.",
    RunEvent.RELEASED: "The spawner gave the ticket back.",
    RunEvent.STOP_REQUESTED: "The controller asks for the end of the run.",
    RunEvent.REFUSED: "A verdict with the outcome REFUSED: the run cannot have its place.",
    RunEvent.ABORTED: "Any other verdict: the run was lost, has failed, or must not go on.",
    RunEvent.FINISHED: "The work of every task has ended; sidecars may run on until the pods are deleted.",
    RunEvent.FORGOTTEN: "The controller has recorded the result, or does not want the run.",
}

#: From every phase before a verdict.
_VERDICTS = {RunEvent.REFUSED: RunPhase.REFUSING, RunEvent.ABORTED: RunPhase.ABORTING}
#: From every phase in which nobody has asked for the end yet.
_REQUESTS = {RunEvent.RELEASED: RunPhase.RELEASED, RunEvent.STOP_REQUESTED: RunPhase.STOPPING}
#: From every phase in which no pod is created any more.
_END = {RunEvent.FINISHED: RunPhase.ENDED}
#: From every phase.
_REMOVAL = {RunEvent.FORGOTTEN: RunPhase.REMOVING}

TRANSITIONS: Mapping[RunPhase, Mapping[RunEvent, RunPhase]] = {
    RunPhase.KNOWN: {
        RunEvent.LAUNCHED: RunPhase.WAITING,
        RunEvent.BEGAN: RunPhase.RUNNING,
        **_REQUESTS,
        **_VERDICTS,
        **_END,
        **_REMOVAL,
    },
    RunPhase.WAITING: {
        RunEvent.DEVICES_READY: RunPhase.CREATING,
        RunEvent.PODS_SEEN: RunPhase.STARTING,
        **_REQUESTS,
        **_VERDICTS,
        **_REMOVAL,
    },
    RunPhase.CREATING: {
        RunEvent.DEVICES_WITHDRAWN: RunPhase.WAITING,
        RunEvent.PODS_SEEN: RunPhase.STARTING,
        **_REQUESTS,
        **_VERDICTS,
        **_REMOVAL,
    },
    RunPhase.STARTING: {RunEvent.BEGAN: RunPhase.RUNNING, **_REQUESTS, **_VERDICTS, **_END, **_REMOVAL},
    RunPhase.RUNNING: {**_REQUESTS, **_VERDICTS, **_END, **_REMOVAL},
    RunPhase.RELEASED: {
        RunEvent.RELEASED: RunPhase.RELEASED,
        RunEvent.STOP_REQUESTED: RunPhase.RELEASED,
        **_VERDICTS,
        **_END,
        **_REMOVAL,
    },
    RunPhase.STOPPING: {
        **_REQUESTS,
        RunEvent.ABORTED: RunPhase.ABORTING,
        **_END,
        **_REMOVAL,
    },
    RunPhase.REFUSING: {RunEvent.STOP_REQUESTED: RunPhase.STOPPING, **_END, **_REMOVAL},
    RunPhase.ABORTING: {
        RunEvent.RELEASED: RunPhase.ABORTING,
        RunEvent.STOP_REQUESTED: RunPhase.ABORTING,
        **_END,
        **_REMOVAL,
    },
    RunPhase.ENDED: {**_REMOVAL},
    RunPhase.REMOVING: {**_REMOVAL},
}

#: Phases in which pods are created.
CREATES_PODS = frozenset({RunPhase.WAITING, RunPhase.CREATING})
#: Phases in which the run shall end and has not ended.
ENDING = frozenset({RunPhase.STOPPING, RunPhase.REFUSING, RunPhase.ABORTING})


def next_phase(run: str, phase: RunPhase, event: RunEvent) -> RunPhase:
    """Return the phase after `event`; raise `IllegalTransition` if the table has no such arrow.

    `run` is for the error.
    """
    try:
        return TRANSITIONS[phase][event]
    except KeyError as error:
        raise IllegalTransition(run, phase, event) from error

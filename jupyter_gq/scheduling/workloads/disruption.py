"""In which order work loses its devices: those first who lose least.

Rules
-----
1. What was promised or admitted in this cycle loses nothing. What has not started loses nothing either.
2. Then the lower priority; then parts of elastic work, which goes on without them; then the newest run, then the newest
   submission, then the last task of a workload, then the id.
3. Work that saves its state goes on where it saved, so it loses less: its run counts as `SAVING_COUNTS` younger than it
   is. Not more: who never saves is not protected by that, but has to go before a much older one that does. And a run
   does not come nearer or farther with each save, so the order is the same from cycle to cycle.
"""

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload

from .replicas import Replica

#: By so much younger a run counts that has saved its state.
SAVING_COUNTS = Seconds(3600)

Disruption = tuple[bool, bool, int, bool, float, float, int, str]


def disruption(workload: Workload) -> Disruption:
    """Sort key of what could be stopped; those of this cycle are PENDING with a placement."""
    started = workload.started_at if workload.started_at is not None else workload.submitted_at
    if workload.checkpointed_at is not None:
        started = Instant(started + SAVING_COUNTS)
    place = workload.index if isinstance(workload, Replica) else None
    return (
        workload.state is not State.PENDING,
        workload.state is State.RUNNING,
        workload.priority,
        place is None,
        -started,
        -workload.submitted_at,
        -(place or 0),
        workload.id,
    )

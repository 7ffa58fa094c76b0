"""The outlook of a workload from a cycle of its own, against which the kept scheduler is compared."""

from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.preview.admission import Outlook, outlook, queued


def preview(snapshot: Snapshot, policy: Policy, now: Instant, workload: Workload) -> Outlook:
    """Run a cycle on the snapshot as if the workload had been queued, and return what would become of it."""
    others = tuple(other for other in snapshot.workloads if other.id != workload.id)
    decision = run_cycle(replace(snapshot, workloads=(*others, queued(workload))), policy, now)
    return outlook(snapshot, policy, workload, decision)

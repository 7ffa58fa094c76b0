"""The notice about a sweep, or another group of jobs, all of which have ended. Pure.

See docs/decisions/0229-tell-the-end-of-a-sweep-once.md.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from jupyter_gq.backends.notifications.notifier import Notice
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import State
from jupyter_gq.store.protocol import Record

from .job_ends import list_ends

#: The ends of jobs as their owners see them, the one that decides about the whole sweep first.
_ENDS = {State.FAILED: "failed", State.SUCCEEDED: "done", State.CANCELLED: "cancelled"}


def make_sweep_notice(records: Sequence[Record]) -> Notice:
    """Return the notice about the jobs of one group and owner, which all have ended and are at least one."""
    workloads = [record.workload for record in records]
    ends = Counter(_ENDS[workload.state] for workload in workloads)
    finished_at = max(workload.finished_at or workload.submitted_at for workload in workloads)
    counts = ", ".join(f"{ends[end]} {end}" for end in _ENDS.values() if ends[end])
    last = max(workloads, key=lambda workload: workload.finished_at or workload.submitted_at)
    return Notice(
        job=last.id,
        group=records[0].detail.group,
        name=_find_common_words([workload.name for workload in workloads]),
        owner=last.owner,
        queue=last.queue,
        phase=next(end for end in _ENDS.values() if ends[end]),
        sentence=f"{len(records)} job{'s' * (len(records) > 1)}: {counts}.",
        took=Seconds(finished_at - min(workload.submitted_at for workload in workloads)),
        finished_at=Instant(finished_at),
    )


def list_group_ends(records: Sequence[Record]) -> frozenset[str]:
    """Return the phases as which the ends of the jobs of a group count, which all have ended."""
    return frozenset().union(*(list_ends(_ENDS[each.workload.state], each.detail.eviction) for each in records))


def _find_common_words(names: Sequence[str]) -> str:
    """Return the words with which all names begin; those of a sweep go on with the values of each job."""
    columns = zip(*(name.split() for name in names), strict=False)
    return " ".join(words[0] for words in takewhile(lambda words: len(set(words)) == 1, columns))

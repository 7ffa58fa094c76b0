"""Sentences for the owners of victims: paused, moved or shrunk work, and notebooks that are warned or stopped.

The cycle that decides writes the sentence, which says for whom, with numbers, and how it goes on.
"""

from collections.abc import Sequence
from functools import partial

from jupyter_gq.domain.amount import ONE_GPU, HostResource
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.limits import QueueLimit
from jupyter_gq.scheduling.wording import (
    describe_duration,
    describe_gpus,
    describe_host_amount,
    describe_preemptor,
    describe_with_amount,
    enumerate_names,
)
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import Replica

_GROWS = "Grows again by itself"


def describe_reclaim(victim: Workload, by: Workload, *, borrows: bool = False) -> str:
    """Return the sentence for work whose devices are reclaimed for `by`, which is of another queue.

    `borrows` says whether the queue of `by` uses more than its quota of GPUs with them: these are not "its" GPUs.
    """
    needed = f"{describe_preemptor(by)} needed its {_needed(victim, by)} back"
    if borrows and _takes_gpus(victim, by):
        needed = f"{describe_preemptor(by)}, which used less than its fair share, gets {_needed(victim, by)}"
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {needed}. {_grows_back(victim)}"
    return f"Paused: {needed}. {_comes_back(victim)}"


#: What the sentence about a stop begins with, before and after the work has stopped.
_STOPPING = {"Paused: ": "Pausing: ", "Ended: ": "Ending: "}


def tell_while_stopping(sentence: str) -> str:
    """Return the sentence about a stop for work that has not stopped yet, and says so as long as it runs."""
    for after, before in _STOPPING.items():
        if sentence.startswith(after):
            return before + sentence.removeprefix(after)
    return sentence


def describe_resettled(victim: Workload, by: Workload, nodes: Sequence[str], *, borrows: bool = False) -> str:
    """Return the sentence for the owner of `victim`, which is evicted for `by` and continues at `nodes`.

    Other work is evicted from these nodes to make room for the victim. For `borrows` see `describe_reclaim`.
    """
    describe = describe_preemption if victim.queue == by.queue else partial(describe_reclaim, borrows=borrows)
    goes_on = f"Continues by itself at {enumerate_names(nodes)}, where room is made for it."
    return describe(victim, by).removesuffix(_comes_back(victim)) + goes_on


def describe_lost_queue(victim: Workload, sentence: str) -> str:
    """Return the sentence about a victim whose queue was removed, instead of one that says how it goes on by itself."""
    if isinstance(victim, Replica):
        return without_growth(sentence, victim.queue)
    promise = _comes_back(victim)
    return sentence.removesuffix(promise) + _lost(victim.queue, "goes on") if sentence.endswith(promise) else sentence


def without_growth(sentence: str, queue: str) -> str:
    """Return a sentence about elastic work without the promise that it grows again, since its queue was removed."""
    told, promise, _ = sentence.partition(_GROWS)
    return told + _lost(queue, "grows again") if promise else sentence


def _lost(queue: str, aim: str) -> str:
    return f"Its queue {queue} is no longer in the configuration: move it to another one, so that it {aim}."


def _takes_gpus(victim: Workload, by: Workload) -> bool:
    return bool(gang.smallest(by) and gang.held(victim))


def _needed(victim: Workload, by: Workload) -> str:
    """Return what `by` needs as a phrase: its GPUs if the victim holds some, else its host resources.

    If it needs no host resources either, its GPUs are named in any case.
    """
    if _takes_gpus(victim, by):
        return describe_gpus(gang.smallest(by))
    needed = gang.smallest_host(by)
    amounts = [describe_host_amount(resource, needed[resource]) for resource in HostResource if needed[resource]]
    return enumerate_names(amounts) if amounts else describe_gpus(gang.smallest(by))


def describe_preemption(victim: Workload, by: Workload) -> str:
    """Return the sentence for work that gives way to `by`, which has a higher priority in the same queue."""
    text = (
        f"{describe_with_amount(by, gang.smallest(by))} in the same queue has the higher priority "
        f"({by.priority} over {victim.priority})"
    )
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {text}. {_grows_back(victim)}"
    return f"Paused: {text}. {_comes_back(victim)}"


def describe_move(victim: Workload, by: Workload, nodes: Sequence[str]) -> str:
    """Return the sentence for work that moves to these nodes, so that `by` fits."""
    if isinstance(victim, Replica):
        tasks = sum(group.tasks for group in gang.groups_of(victim.whole))
        fits = f"so that {describe_with_amount(by, gang.smallest(by))} fits"
        return (
            f"One of its {tasks} tasks goes on at {enumerate_names(nodes)}, {fits}. The others run on where they are."
        )
    return (
        f"Paused: it moves to {enumerate_names(nodes)}, so that {describe_with_amount(by, gang.smallest(by))} fits. "
        "Continues there by itself as soon as it has stopped."
    )


def describe_over_limit(victim: Workload, broken: QueueLimit, too_low: QueueLimit | None) -> str:
    """Return the sentence for work in a queue whose limit was lowered.

    `too_low` is a limit under which the work could not start again, so that nothing is promised; None if there is none.
    """
    lowered = f"the limit of {broken.account.queue.name} was lowered to {broken.amount}"
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {lowered}. {_GROWS} when there is room under it."
    if too_low is not None:
        return f"Paused: {lowered}, less than it needs." if too_low == broken else f"Paused: {lowered}."
    return f"Paused: {lowered}. Continues by itself when there is room under it."


def promise_under_limit(sentence: str) -> str:
    """Return the sentence about a pause because of a lowered limit, with an end that says when the job continues.

    A sentence that says so already is returned as it is.
    """
    if "Continues by itself" in sentence:
        return sentence
    return f"{sentence} Continues by itself once the limit is high enough."


def describe_warning(by: Workload | None, idle_for: float, *, lends: bool, may_keep: bool) -> str:
    """Return the sentences for a notebook that has been idle for `idle_for` seconds, during the countdown.

    The first two say what is lost, and what prevents that: a notification has room for both behind the time. `lends`
    says that the share is lent, and not the server stopped; `may_keep` that the owner may press "Keep it".
    """
    waiting = "" if by is None else f", and {describe_with_amount(by, gang.smallest(by))} waits for its share"
    lost = (
        "Nothing is lost: the GPU is lent until your next cell."
        if lends
        else "Your server stops: variables are lost, files are kept."
    )
    prevented = "Run a cell or press Keep it to keep it." if may_keep else "Run a cell to keep it."
    return f"{lost} {prevented} Idle for {describe_duration(idle_for)}{waiting}."


def describe_idle_eviction(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """Return the sentence for a notebook that is stopped after `idle_for` idle seconds."""
    share = describe_gpus(gang.held(notebook))
    waiting = "" if by is None else f" and {describe_with_amount(by, gang.smallest(by))} waited for its {share}"
    return (
        f"Stopped: your server was idle for {describe_duration(idle_for)}{waiting}. "
        "Your files are saved, and the variables of its kernels are lost."
    )


def describe_suspension(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """Return the sentence for a notebook that is suspended after `idle_for` idle seconds.

    `by` is the work that waited for the devices; None if none did. Other work may borrow them first, or later. The
    sentence stays true if a kernel ends meanwhile, whose variables are gone.
    """
    waiting = ""
    if by is not None:
        needed = gang.smallest(by)
        waiting = f", and {describe_with_amount(by, needed)} waited for {'a GPU' if needed <= ONE_GPU else 'GPUs'}"
    held = gang.held(notebook)
    were = f"{describe_gpus(held)} {'was' if held <= ONE_GPU else 'were'}"
    return (
        f"Suspended: your {were} idle for {describe_duration(idle_for)}{waiting}. "
        "The next cell that you run brings it back, with the variables of kernels that still run."
    )


def describe_stale_gang(workload: Workload, now: float) -> str:
    """Return the sentence for a gang that lost tasks and goes back to its queue; `now` is the time in seconds."""
    since = now if workload.stale_since is None else workload.stale_since
    for group in gang.groups_of(workload):
        left = sum(task.group == group.name for task in workload.placement)
        if left < group.min_members:
            number = "tasks" if not left else f"{group.tasks} tasks"
            which = f"{f'only {left}' if left else 'none'} of its {number}" + (
                f" of {group.name}" if group.name else ""
            )
            text = f"{'have' if left > 1 else 'has'} been left for {describe_duration(now - since)}"
            needs = f"it needs at least {group.min_members} to go on"
            return f"Paused: {which} {text}, and {needs}. {_comes_back(workload)}"
    return f"Paused: it had lost tasks. {_comes_back(workload)}"


def describe_drain(victim: Workload, cause: str) -> str:
    """Return the sentence for training work that a drain evicts; `cause` is a clause."""
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {cause}. {_grows_back(victim)}"
    return f"Paused: {cause}. {_comes_back(victim)}"


def _runs_on(replica: Replica) -> str:
    """Return a clause such as "Runs on with 3 of its 4 tasks"; `replica.whole` is what is left of the workload."""
    wanted = sum(group.tasks for group in gang.groups_of(replica.whole))
    return f"Runs on with {len(replica.whole.placement)} of its {wanted} tasks"


def _grows_back(replica: Replica) -> str:
    device = "a GPU is" if gang.smallest(replica) <= ONE_GPU else f"{describe_gpus(gang.smallest(replica))} are"
    return f"{_GROWS} when {device} free."


def _comes_back(victim: Workload) -> str:
    if not gang.smallest(victim):
        return "Continues by itself when there is room for it."
    device = "a GPU is" if gang.smallest(victim) <= ONE_GPU else f"{describe_gpus(gang.smallest(victim))} are"
    return f"Continues by itself when {device} free."

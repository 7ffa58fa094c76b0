"""What the owner of a victim is told: of work that is paused, moved or shrunk, of a notebook that is warned or stopped.

The sentence is made by the cycle that decided. It says for whom, with numbers, and how it goes on.
"""

from collections.abc import Sequence

from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.quota.limits import Broken
from jupyter_gq.scheduling.wording import enumerate_names, for_whom, gpus, host_amount, minutes, who_with_amount
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import Replica


def reclaimed(victim: Workload, by: Workload) -> str:
    """For the owner of `victim`, whose devices go to another queue."""
    needed = f"{for_whom(by)} needed its {_needed(victim, by)} back"
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {needed}. {_grows_back(victim)}"
    return f"Paused: {needed}. {_comes_back(victim)}"


def _needed(victim: Workload, by: Workload) -> str:
    """GPUs; processors and memory of nodes where it is not about GPUs."""
    if gang.smallest(by) and gang.held(victim):
        return gpus(gang.smallest(by))
    amounts = [host_amount(which, amount) for which, amount in enumerate(gang.smallest_host(by)) if amount]
    return enumerate_names(amounts) if amounts else gpus(gang.smallest(by))


def preempted(victim: Workload, by: Workload) -> str:
    """For the owner of `victim`, which gives way inside its own queue."""
    text = (
        f"{who_with_amount(by, gang.smallest(by))} in the same queue has the higher priority "
        f"({by.priority} over {victim.priority})"
    )
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {text}. {_grows_back(victim)}"
    return f"Paused: {text}. {_comes_back(victim)}"


def moved(victim: Workload, by: Workload, nodes: Sequence[str]) -> str:
    """For the owner of `victim`, which goes on at another place, on these nodes."""
    if isinstance(victim, Replica):
        tasks = sum(group.tasks for group in gang.groups_of(victim.whole))
        fits = f"so that {who_with_amount(by, gang.smallest(by))} fits"
        return (
            f"One of its {tasks} tasks goes on at {enumerate_names(nodes)}, {fits}. The others run on where they are."
        )
    return (
        f"Paused: it moves to {enumerate_names(nodes)}, so that {who_with_amount(by, gang.smallest(by))} fits. "
        "Continues there by itself as soon as it has stopped."
    )


def over_limit(victim: Workload, broken: Broken) -> str:
    """For the owner of work in a queue whose limit was lowered."""
    lowered = f"the limit of {broken.account.queue.name} was lowered to {broken.amount}"
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: {lowered}. Grows again by itself when there is room under it."
    return f"Paused: {lowered}. Continues by itself when there is room under it."


def warned(by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook, during the countdown."""
    waiting = "" if by is None else f", and {who_with_amount(by, gang.smallest(by))} waits for its share"
    return f"Idle for {minutes(idle_for)}{waiting}. Run a cell, or press Keep it, to keep the share."


def evicted_idle(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook that is stopped."""
    share = gpus(gang.held(notebook))
    waiting = "" if by is None else f" and {who_with_amount(by, gang.smallest(by))} waited for its {share}"
    return (
        f"Stopped: your server was idle for {minutes(idle_for)}{waiting}. "
        "Your files are saved; start the server again to get a share."
    )


def suspended(notebook: Workload, by: Workload | None, idle_for: float) -> str:
    """For the owner of an idle notebook whose GPU memory is lent."""
    waiting = "" if by is None else f" and is lent to {who_with_amount(by, gang.smallest(by))}"
    return (
        f"Suspended: your {gpus(gang.held(notebook))} was idle for {minutes(idle_for)}{waiting}. "
        "Nothing is lost; the next cell waits a few seconds and goes on."
    )


def stale(workload: Workload, now: float) -> str:
    """For the owner of a gang that lost tasks."""
    since = now if workload.stale_since is None else workload.stale_since
    for group in gang.groups_of(workload):
        left = sum(task.group == group.name for task in workload.placement)
        if left < group.min_members:
            tasks = f"its {group.tasks} tasks" + (f" of {group.name}" if group.name else "")
            text = f"{'has' if left == 1 else 'have'} been left for {minutes(now - since)}"
            needs = f"it needs at least {group.min_members} to go on"
            return f"Paused: only {left} of {tasks} {text}, and {needs}. {_comes_back(workload)}"
    return f"Paused: it had lost tasks. {_comes_back(workload)}"


def drained(victim: Workload, node: str) -> str:
    """For the owner of training on a node that is being emptied."""
    if isinstance(victim, Replica):
        return f"{_runs_on(victim)}: the node {node} is being emptied. {_grows_back(victim)}"
    return f"Paused: the node {node} is being emptied. {_comes_back(victim)}"


def _runs_on(part: Replica) -> str:
    """Such as "Runs on with 3 of its 4 tasks"; the part knows what is left of its workload."""
    wanted = sum(group.tasks for group in gang.groups_of(part.whole))
    return f"Runs on with {len(part.whole.placement)} of its {wanted} tasks"


def _grows_back(part: Replica) -> str:
    device = "a GPU is" if gang.smallest(part) <= 1000 else f"{gpus(gang.smallest(part))} are"
    return f"Grows again by itself when {device} free."


def _comes_back(victim: Workload) -> str:
    if not gang.smallest(victim):
        return "Continues by itself when there is room for it."
    device = "a GPU is" if gang.smallest(victim) <= 1000 else f"{gpus(gang.smallest(victim))} are"
    return f"Continues by itself when {device} free."

"""How amounts, workloads and queues are named in sentences for people."""

from collections.abc import Sequence
from math import ceil

from jupyter_gq.domain.amount import GIB, ONE_CORE, ONE_GPU, HostResource, format_cpus, format_gpus
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.domain.queue import BUILD_ROOT
from jupyter_gq.domain.workload import Kind, Workload

#: The sentence for everyone while a backend cannot be observed; the log says what failed.
UNOBSERVED = "The state of running work is unknown at the moment, so nothing is started or ended; running work goes on."
#: A sentence names at most so many items; the rest is counted.
NAMED = 3


def describe_gpus(milli: int) -> str:
    """Return an amount of milli-GPU such as "0.25 GPU", "2 GPUs"."""
    return f"{format_gpus(milli)} {gpu_noun(milli)}"


def gpu_noun(milli: int) -> str:
    """Return "GPU" for up to 1000 milli-GPU, and "GPUs" for more."""
    return "GPUs" if milli > ONE_GPU else "GPU"


def describe_workload(workload: Workload) -> str:
    """Return the marked name of a workload, such as "ann's digits" or "bob's server 'second'".

    Readers who may not see it get "another user's job" or "another user's notebook" when the text is rendered, and the
    owner "your job digits" or "your server 'second'".
    """
    owner, name = workload.owner, strip_controls(workload.name)
    if workload.kind is Kind.NOTEBOOK:
        server = "server" + (f" {name!r}" if name else "")
        return mention(owner, f"{owner}'s {server}", "another user's notebook", f"your {server}")
    return mention(owner, f"{owner}'s {name or 'job'}", "another user's job", f"your job {name}".rstrip())


def describe_with_amount(workload: Workload, milli: int) -> str:
    """Return the name of a workload with an amount of milli-GPU, such as "ann's digits (1 GPU)"."""
    return f"{describe_workload(workload)} ({describe_gpus(milli)})"


def enumerate_names(names: Sequence[str], last: str = "and") -> str:
    """Join names into a phrase such as "a", "a and b", "a, b, c and 4 more"; `last` is the conjunction.

    There must be at least one name.
    """
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append(f"{len(names) - NAMED} more")
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def describe_cores(milli: int) -> str:
    """Return an amount of thousandths of a core such as "0.5 CPU cores", "1 CPU core"."""
    return f"{format_cpus(milli)} CPU core{'' if milli == ONE_CORE else 's'}"


def describe_memory(mib: int) -> str:
    """Return an amount of MiB such as "16 GiB", "1.5 GiB", "500 MiB"; in GiB with up to two decimals from 1 GiB on.

    The amount is rounded down, so that a user who is told the most that there is may ask for it.
    """
    if mib < GIB:
        return f"{mib} MiB"
    return f"{mib * 100 // GIB / 100:.2f}".rstrip("0").rstrip(".") + " GiB"


def is_fixed_quota(queue: str) -> bool:
    """Tell whether the queue of that name is the fixed quota of a user."""
    return queue.startswith(f"{BUILD_ROOT}/")


def describe_preemptor(workload: Workload) -> str:
    """Return the name of a preemptor in sentences: its queue or, for a fixed quota, the marked name of its owner."""
    if is_fixed_quota(workload.queue):
        return mention(workload.owner, workload.owner, "another user")
    return workload.queue


def describe_duration(seconds: float) -> str:
    """Return a duration, rounded down, such as "90 s", "25 min" or "3 h 20 min".

    Seconds are used below two minutes, and hours from two hours on.
    """
    if seconds < 120:
        return f"{int(seconds)} s"
    hours, minutes = divmod(int(seconds // 60), 60)
    if hours < 2:
        return f"{60 * hours + minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def describe_host_amount(resource: HostResource, amount: int) -> str:
    """Return an amount of a host resource, in thousandths of a core or MiB, such as "8 CPU cores" or "512 GiB"."""
    return describe_cores(amount) if resource is HostResource.CPU else describe_memory(amount)


def name_host_amount(resource: HostResource, amount: int) -> str:
    """Return an amount with the name of its host resource, such as "8 CPU cores" or "512 GiB of memory"."""
    return describe_host_amount(resource, amount) + (" of memory" if resource is HostResource.MEMORY else "")


def describe_host_limit(queue: str, resource: HostResource, amount: int) -> str:
    """Return a clause about a limit of a queue, such as "the limit of vision is 512 GiB of memory"."""
    return f"the limit of {queue} is {name_host_amount(resource, amount)}"


def describe_remaining_time(seconds: float) -> str:
    """Return a time such as "3 more minutes", "45 more seconds", rounded up so that the time is over after it."""
    count, unit = (ceil(seconds), "second") if seconds <= 120 else (ceil(seconds / 60), "minute")
    return f"{count} more {unit}{'' if count == 1 else 's'}"

"""How amounts, workloads and queues are named in sentences for people."""

from collections.abc import Sequence
from math import ceil

from jupyter_gq.domain.amount import GIB, ONE_CORE, ONE_GPU, format_cpus, format_gpus
from jupyter_gq.domain.queue import BUILD_ROOT
from jupyter_gq.domain.workload import Kind, Workload

#: Said to everybody while a backend cannot be observed; what exactly failed stands in the log.
UNOBSERVED = "What runs cannot be seen at present, so nothing is started or ended; what runs goes on."
#: A sentence names at most so many; the others are counted.
NAMED = 3


def gpus(milli: int) -> str:
    """Such as "0.25 GPU", "2 GPUs"."""
    return f"{format_gpus(milli)} {noun(milli)}"


def noun(milli: int) -> str:
    """Say "GPU", or "GPUs" for more than one."""
    return "GPUs" if milli > ONE_GPU else "GPU"


def who(workload: Workload) -> str:
    """Such as "ann's digits", "bob's server", "bob's server 'second'"."""
    if workload.kind is Kind.NOTEBOOK:
        return f"{workload.owner}'s server" + (f" {workload.name!r}" if workload.name else "")
    return f"{workload.owner}'s {workload.name or 'job'}"


def who_with_amount(workload: Workload, milli: int) -> str:
    """Such as "ann's digits (1 GPU)"."""
    return f"{who(workload)} ({gpus(milli)})"


def enumerate_names(names: Sequence[str], last: str = "and") -> str:
    """Such as "a", "a and b", "a, b, c and 4 more"."""
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append(f"{len(names) - NAMED} more")
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def cores(milli: int) -> str:
    """Such as "0.5 CPU cores", "1 CPU core"."""
    return f"{format_cpus(milli)} CPU core{'' if milli == ONE_CORE else 's'}"


def memory(mib: int) -> str:
    """Such as "16 GiB", "1.5 GiB", "500 MiB"; rounded down, so that who is told the most may ask for it."""
    if mib < GIB:
        return f"{mib} MiB"
    return f"{mib * 100 // GIB / 100:.2f}".rstrip("0").rstrip(".") + " GiB"


def is_build(queue: str) -> bool:
    """It is somebody's fixed quota."""
    return queue.startswith(f"{BUILD_ROOT}/")


def for_whom(workload: Workload) -> str:
    """On whose behalf something is taken back: a training queue, or the owner of a notebook."""
    return workload.owner if is_build(workload.queue) else workload.queue


def minutes(seconds: float) -> str:
    """Such as "25 min"; below two minutes in seconds."""
    return f"{int(seconds)} s" if seconds < 120 else f"{int(seconds // 60)} min"


def host_amount(which: int, amount: int) -> str:
    """Of processors (0) or memory (1) of nodes, such as "2 CPU cores", "512 MiB"."""
    return cores(amount) if which == 0 else memory(amount)


def host_limit(queue: str, which: int, amount: int) -> str:
    """Such as "the limit of vision is 512 GiB of memory"."""
    return f"the limit of {queue} is {host_amount(which, amount)}{' of memory' if which == 1 else ''}"


def more_time(seconds: float) -> str:
    """Such as "3 more minutes", "45 more seconds"; rounded up, so that it is over when the time has passed."""
    count, unit = (ceil(seconds), "second") if seconds <= 120 else (ceil(seconds / 60), "minute")
    return f"{count} more {unit}{'' if count == 1 else 's'}"

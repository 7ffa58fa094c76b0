"""Limits of GPUs, CPU and memory that a queue exceeds, each by itself.

A limit is exceeded if its queue will be above it once everything that was told to stop has stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_gq.domain.amount import NO_GPU
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.wording import describe_gpus, describe_host_amount
from jupyter_gq.scheduling.workloads import gang

from .accounts import UNSAID, Account


@dataclass(frozen=True, kw_only=True, slots=True)
class ExceededLimit:
    """A limit that its queue exceeds."""

    account: Account
    #: The limited resource: CPU (0) or memory (1) of nodes; None = GPUs.
    which: int | None

    def concerns(self, unit: Workload) -> bool:
        """Tell whether the workload or replica holds some of the resource whose limit is exceeded."""
        return bool(gang.held(unit) if self.which is None else gang.held_host(unit)[self.which])

    def admits(self, unit: Workload) -> bool:
        """Tell whether the least that the workload or replica needs is within the limit, if nothing else is used."""
        if self.which is None:
            return gang.smallest(unit) <= (self.account.queue.limit or NO_GPU)
        return gang.smallest_host(unit)[self.which] <= (self.account.host_limits[self.which] or 0)

    @property
    def amount(self) -> str:
        """The limit in words, such as "2 GPUs", "8 CPU cores" or "512 GiB of memory"."""
        if self.which is None:
            return describe_gpus(self.account.queue.limit or NO_GPU)
        return describe_host_amount(self.which, self.account.host_limits[self.which] or 0) + " of memory" * self.which


def exceeded_limits(account: Account) -> Iterator[ExceededLimit]:
    """Yield the limits of this one queue that it exceeds."""
    if account.queue.limit is not None and account.lasting > account.queue.limit:
        yield ExceededLimit(account=account, which=None)
    if account.host_limits != UNSAID:
        for which, (limit, lasting) in enumerate(zip(account.host_limits, account.host_lasting, strict=True)):
            if limit is not None and lasting > limit:
                yield ExceededLimit(account=account, which=which)


def exceeded_limits_above(account: Account, unit: Workload) -> Iterator[ExceededLimit]:
    """Yield the exceeded limits of a leaf queue and its ancestors, for the resources of which the unit holds some."""
    return (exceeded for each in account.chain for exceeded in exceeded_limits(each) if exceeded.concerns(unit))

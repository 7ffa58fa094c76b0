"""Limits of GPUs, CPU and memory of queues, each by itself, and which of them a queue exceeds.

A limit is exceeded if its queue will be above it once everything that was told to stop has stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_gq.domain.amount import NO_GPU, HostResource
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.wording import describe_gpus, name_host_amount
from jupyter_gq.scheduling.workloads import gang

from .accounts import UNSAID, Account


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueLimit:
    """A limit of a queue that has one for this resource."""

    account: Account
    #: The limited host resource; None = GPUs.
    resource: HostResource | None

    def concerns(self, unit: Workload) -> bool:
        """Tell whether the workload or replica holds some of the limited resource."""
        return bool(gang.held(unit) if self.resource is None else gang.held_host(unit)[self.resource])

    def admits(self, unit: Workload) -> bool:
        """Tell whether the least that the workload or replica needs is within the limit, if nothing else is used."""
        if self.resource is None:
            return gang.smallest(unit) <= (self.account.queue.limit or NO_GPU)
        return gang.smallest_host(unit)[self.resource] <= (self.account.host_limits[self.resource] or 0)

    @property
    def is_exceeded(self) -> bool:
        """Whether the queue will use more than the limit."""
        if self.resource is None:
            return self.account.lasting > (self.account.queue.limit or NO_GPU)
        return self.account.host_lasting[self.resource] > (self.account.host_limits[self.resource] or 0)

    @property
    def amount(self) -> str:
        """The limit in words, such as "2 GPUs", "8 CPU cores" or "512 GiB of memory"."""
        if self.resource is None:
            return describe_gpus(self.account.queue.limit or NO_GPU)
        return name_host_amount(self.resource, self.account.host_limits[self.resource] or 0)


def exceeded_limits(account: Account) -> Iterator[QueueLimit]:
    """Yield the limits of this one queue that it exceeds."""
    return (each for each in _limits_of(account) if each.is_exceeded)


def first_limit_below(account: Account, unit: Workload) -> QueueLimit | None:
    """Return the first limit, from a leaf queue up, that is lower than the least that the unit needs; None if none is.

    Usage does not count. Such a unit cannot start again before the limit is raised.
    """
    return next((limit for each in account.chain for limit in _limits_of(each) if not limit.admits(unit)), None)


def _limits_of(account: Account) -> Iterator[QueueLimit]:
    """Yield the limits of this one queue."""
    if account.queue.limit is not None:
        yield QueueLimit(account=account, resource=None)
    if account.host_limits != UNSAID:
        for resource in HostResource:
            if account.host_limits[resource] is not None:
                yield QueueLimit(account=account, resource=resource)


def exceeded_limits_above(account: Account, unit: Workload) -> Iterator[QueueLimit]:
    """Yield the exceeded limits of a leaf queue and its ancestors, for the resources of which the unit holds some."""
    return (exceeded for each in account.chain for exceeded in exceeded_limits(each) if exceeded.concerns(unit))

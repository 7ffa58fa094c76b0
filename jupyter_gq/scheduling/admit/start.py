"""Start pending work, or nominate it for a place that is being freed: a whole smallest gang, or nothing.

Rules
-----
Reserved devices last: reserved devices are used only if nothing else is free, and only by work that may pass (see
`state.reservations`).

Surplus within fair shares: no surplus replica lifts a queue above its fair share, nor is other work stopped for one
while a queue is above. Only elastic work may take a free device for one, for it can give the device back.

All or nothing: a workload or replica that gets nothing has changed nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.placement import View
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.replicas import is_surplus


def try_place(allocations: Allocations, workload: Workload) -> bool:
    """Admit the workload if it fits now, or else nominate it if it fits once others have stopped.

    Tells whether it got a place.
    """
    return try_admit(allocations, workload) or try_nominate(allocations, workload)


def try_admit(allocations: Allocations, workload: Workload) -> bool:
    """Admit the workload if it fits now; tell whether it was admitted.

    Reserved devices are used only if nothing else is free and the workload may use them.
    """
    return _also_on_reserved(_admit, allocations, workload)


def try_nominate(allocations: Allocations, workload: Workload) -> bool:
    """Nominate the workload if it fits once others have stopped; tell whether it was nominated.

    Reserved devices are used only if nothing else suffices and the workload may use them.
    """
    return _also_on_reserved(_nominate, allocations, workload)


def admit_nominee(allocations: Allocations, reservations: Reservations, workload: Workload) -> bool:
    """Admit a nominated workload at its place or wherever else it fits now, and return True.

    If it fits nowhere now, the workload stays nominated for its place, and the result is False.
    """
    place = allocations.withdraw(workload)
    with allocations.lifting_reservations(None):  # the place is the workload's, whoever has a reservation there
        admitted = _admit_at(allocations, workload, place)
    if admitted or try_admit(allocations, workload):
        reservations.recorded.discard(workload.id)
        return True
    allocations.nominate_again(workload, place)
    return False


def may_fit_now(allocations: Allocations, workload: Workload) -> bool:
    """Return False if the workload certainly does not fit now; True means that it may fit.

    Reserved devices that the workload may use count as free.
    """
    return _may_fit(allocations, workload, View.NOW)


def may_fit_soon(allocations: Allocations, workload: Workload) -> bool:
    """Return False if the workload certainly does not fit once all that is stopping has stopped; True: it may fit.

    Reserved devices that the workload may use count as free.
    """
    return _may_fit(allocations, workload, View.FUTURE)


def _also_on_reserved(
    attempt: Callable[[Allocations, Workload], bool], allocations: Allocations, workload: Workload
) -> bool:
    """Make the attempt on devices that are not reserved, then on reserved ones that the workload may use.

    Return whether one of the attempts placed the workload.
    """
    if attempt(allocations, workload):
        return True
    if not allocations.any_reservations:
        return False
    with allocations.lifting_reservations(workload) as lifted:
        return lifted and attempt(allocations, workload)


def _admit(allocations: Allocations, workload: Workload) -> bool:
    """Admit the workload on devices that are free now. Return False, without change, if that is not possible.

    The queue must be known, and limits and free devices must allow it. A surplus replica that could not be given back
    must also stay within the fair shares.
    """
    account = allocations.account(workload)
    if not account.known or allocations.first_exceeded_limit(workload, now=True):
        return False
    if not workload.elastic and _exceeds_fair_share(workload, account):
        return False
    place = assemble.place(allocations.ledger, account.queue.pool, workload, View.NOW)
    if place is None:
        return False
    allocations.admit(workload, place)
    return True


def _admit_at(allocations: Allocations, workload: Workload, place: tuple[TaskPlacement, ...]) -> bool:
    """Admit the workload at this place; return False, without any change, if a limit or the devices do not allow it."""
    there = replace(workload, placement=place)
    if allocations.first_exceeded_limit(there, now=True) or not allocations.ledger.allocate_at(workload, place):
        return False
    allocations.admit(workload, place)
    return True


def _nominate(allocations: Allocations, workload: Workload) -> bool:
    """Nominate the workload for devices that are free or being freed.

    Return False, without change, if the queue is unknown, a limit forbids it or it does not fit. Fair shares bind only
    surplus replicas.
    """
    account = allocations.account(workload)
    if not account.known or allocations.first_exceeded_limit(workload, now=False):
        return False
    if _exceeds_fair_share(workload, account):
        return False
    place = assemble.place(allocations.ledger, account.queue.pool, workload, View.FUTURE)
    if place is None:
        return False
    allocations.nominate(workload, place)
    return True


def _exceeds_fair_share(workload: Workload, account: Account) -> bool:
    """Tell whether the workload is a surplus replica that would lift a queue on its path above its fair share."""
    return is_surplus(workload) and _is_above_fair_share(account, gang.smallest(workload))


def grows_unfairly(allocations: Allocations, workload: Workload) -> bool:
    """Tell whether this is a surplus replica and a queue on its path is above its fair share as things stand."""
    return is_surplus(workload) and _is_above_fair_share(allocations.account(workload), 0)


def _is_above_fair_share(account: Account, more: int) -> bool:
    return any(each.lasting + more > each.fair_share for each in account.chain)


def _may_fit(allocations: Allocations, workload: Workload, view: View) -> bool:
    pool = allocations.account(workload).queue.pool
    if not allocations.any_reservations:
        return assemble.may_fit(allocations.ledger, pool, workload, view)
    with allocations.lifting_reservations(workload):
        return assemble.may_fit(allocations.ledger, pool, workload, view)

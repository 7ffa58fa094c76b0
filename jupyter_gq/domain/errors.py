"""What can be wrong, and whose fault it is.

Every error carries its facts as fields and renders to a sentence that says what was wrong, what
was expected and what to do. HTTP statuses are chosen at the edge (`api`, `lab`, `hub`), not here.
"""

from enum import StrEnum
from typing import ClassVar


class Resource(StrEnum):
    """What an amount, or a refusal, is about."""

    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    #: The product name of a GPU.
    MODEL = "model"


class JupyterGQError(Exception):
    """Root of every error that this package raises on purpose."""


class UserError(JupyterGQError):
    """The request cannot be granted as it is; the user can change it."""

    #: A stable word for programs, such as "unknown_queue".
    code = "invalid_request"


class AdminError(JupyterGQError):
    """The configuration is wrong; an administrator can mend it."""


class IllegalTransition(JupyterGQError):
    """A state was asked to change in a way that its table does not know: a defect of ours."""

    def __init__(self, workload: str, state: str, event: str) -> None:
        super().__init__(f"workload {workload} is {state} and cannot take the event {event}")
        self.workload, self.state, self.event = workload, state, event


class InvalidAmount(UserError, ValueError):
    """An amount of something that is none."""

    code = "invalid_amount"
    _NOUNS: ClassVar = {Resource.GPU: "GPUs", Resource.CPU: "CPU cores", Resource.MEMORY: "memory"}

    def __init__(self, value: object, problem: str, fix: str, resource: Resource = Resource.GPU) -> None:
        super().__init__(f"{value!r} is not a valid amount of {self._NOUNS[resource]}: {problem}; {fix}.")
        self.value, self.problem, self.fix, self.resource = value, problem, fix, resource


class NotThisRun(UserError):
    """Somebody speaks for a run of a job that is not his."""

    code = "not_this_run"


class UnknownQueue(UserError):
    """No queue has that name."""

    code = "unknown_queue"

    def __init__(self, queue: str, known: tuple[str, ...]) -> None:
        choices = ", ".join(known) if known else "none: ask your administrator to add you to a queue"
        super().__init__(f"There is no training queue named {queue!r}. Queues you can use: {choices}.")
        self.queue, self.known = queue, known


class NotAMember(UserError):
    """The user may not use that queue."""

    code = "not_a_member"

    def __init__(self, user: str, queue: str, allowed: tuple[str, ...]) -> None:
        choices = ", ".join(allowed) if allowed else "none: ask your administrator"
        super().__init__(f"{user} is not a member of the queue {queue!r}. Queues you can use: {choices}.")
        self.user, self.queue, self.allowed = user, queue, allowed


class QuotaExceeded(UserError):
    """More than the fixed quota; the numbers say by how much and what holds it."""

    code = "quota_exceeded"

    def __init__(self, *, requested: str, quota: str, used: str, holders: tuple[str, ...]) -> None:
        held = f" ({', '.join(holders)})" if holders else ""
        super().__init__(
            f"You asked for {requested} GPU, but your fixed quota is {quota} GPU and {used} of it is in use{held}. "
            + ("Stop one of those, or choose less." if holders else "Choose less, or ask your administrator for more.")
        )
        self.requested, self.quota, self.used, self.holders = requested, quota, used, holders


class NeverFits(UserError):
    """The request can never be placed, however long it waits, because of this resource."""

    code = "never_fits"

    def __init__(self, sentence: str, resource: Resource = Resource.GPU) -> None:
        super().__init__(sentence)
        self.resource = resource


class NotFound(UserError):
    """No such object, or not one that this user may see (the two are not told apart on purpose)."""

    code = "not_found"


class Conflict(UserError):
    """The object is not in a state in which that can be done."""

    code = "conflict"


class TooLarge(UserError):
    """More bytes than the limit."""

    code = "too_large"


class StorageFull(JupyterGQError):
    """The disk refused a write; nothing was kept."""

    code = "storage_full"


class StoreUnavailable(JupyterGQError):
    """The database does not answer. Whether the last write was kept is not known."""

    code = "store_unavailable"

    def __init__(self, place: str, told: str) -> None:
        super().__init__(f"The scheduler's database {place} does not answer ({told}). It is tried again.")
        self.place, self.told = place, told


class StoreAway(JupyterGQError):
    """The database has not answered for so long that another service shall lead, which may reach it."""

    code = "store_away"

    def __init__(self, last: StoreUnavailable, seconds: float) -> None:
        super().__init__(
            f"For {seconds:.0f} s this service has not reached its database, so it steps back: another one leads that "
            f"does, or this one again when it does. {last}"
        )


class Superseded(JupyterGQError):
    """Another service has taken over; this one must not act any more. Nothing was changed."""

    code = "superseded"

    def __init__(self, own: int, found: int) -> None:
        super().__init__(
            f"Another scheduler service has taken over (its epoch is {found}, ours {own}), so this one ends. "
            "If you see this again and again, two services of one installation are running."
        )
        self.own, self.found = own, found


class NotLeading(JupyterGQError):
    """This service must not act now: it could not renew its lease, or has none yet."""

    code = "not_leading"

    def __init__(self, sentence: str = "") -> None:
        super().__init__(
            sentence or "The service could not renew its lease, so nothing is started or stopped until it has."
        )


class BackendError(JupyterGQError):
    """The machine did not do what it was told."""

    code = "backend_error"


class InvalidSnapshot(AdminError, ValueError):
    """The input of a cycle contradicts itself."""

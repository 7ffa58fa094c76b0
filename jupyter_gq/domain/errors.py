"""The errors of the package, by whose fault they are.

Rules
-----
- One root: each exception class of the package derives from `JupyterGQError`.
- One fault: each class below the root derives from exactly one of `UserError`, `AdminError`, `MachineError`,
  `DefectError` and `HttpRefusal`. The last one is an answer over HTTP, whose status says whose fault it is.
- One name: no two exception classes of the package share a name.
- Clean texts: the root strips control characters from the text, whatever the class.
- Facts as fields: an error has its facts as fields, and its text says what is wrong, what was expected and what to do.

`tests/unit/test_errors.py` checks the first four rules. HTTP statuses are chosen at the edges (`api`, `lab`, `hub`).
"""

from decimal import Decimal
from enum import StrEnum
from typing import ClassVar

from .plain_text import quoted, shorten, strip_controls


class Resource(StrEnum):
    """The resource of an amount or of a refusal."""

    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    #: The product name of a GPU.
    MODEL = "model"
    #: The product names of the GPUs that are tried first.
    PREFERRED_MODELS = "preferred models"
    #: The level within which all tasks run.
    LEVEL = "level"
    #: The least number of tasks.
    TASKS = "tasks"
    #: The memory of a GPU.
    GPU_MEMORY = "GPU memory"


class JupyterGQError(Exception):
    """The root of all errors that this package raises on purpose.

    Their texts may repeat names of files and words of other programs, so they are kept without control characters.
    """

    #: Whether the text keeps its line ends.
    has_lines: ClassVar[bool] = False
    #: Whether the text keeps the marks of `mentions`, which are rendered for its reader.
    has_marks: ClassVar[bool] = False

    def __init__(self, *texts: object) -> None:
        super().__init__(*(self._clean(each) if isinstance(each, str) else each for each in texts))

    def _clean(self, text: str) -> str:
        return strip_controls(text, lines=self.has_lines, marks=self.has_marks)


class UserError(JupyterGQError):
    """A request or a job that cannot be served as it is; the user can change it."""

    #: A stable word for programs, such as "unknown_queue".
    code = "invalid_request"
    has_marks = True


class AdminError(JupyterGQError):
    """A wrong configuration or command; an administrator can mend it."""


class MachineError(JupyterGQError):
    """A failure of a machine, a network or another program; another attempt may succeed."""


class DefectError(JupyterGQError):
    """A defect of this package: something happened that its code must never let happen."""


class HttpRefusal(JupyterGQError):
    """A request that was refused over HTTP.

    Below status 500 the requester is at fault, from 500 on the machine.
    """

    #: The HTTP status of the answer.
    status: int
    has_lines = True
    has_marks = True


class IllegalTransition(DefectError):
    """An event that the table of states does not allow in the present state."""

    def __init__(self, workload: str, state: str, event: str) -> None:
        super().__init__(f"workload {workload} is {state} and cannot take the event {event}")
        self.workload, self.state, self.event = workload, state, event


class InvalidAmount(UserError, ValueError):
    """A text or number that is no valid amount of its resource."""

    code = "invalid_amount"
    _NOUNS: ClassVar = {
        Resource.GPU: "GPUs",
        Resource.CPU: "CPU cores",
        Resource.MEMORY: "memory",
        Resource.GPU_MEMORY: "GPU memory",
    }

    def __init__(self, value: object, problem: str, fix: str, resource: Resource = Resource.GPU) -> None:
        super().__init__(f"{quoted(value)} is not a valid amount of {self._NOUNS[resource]}: {problem}; {fix}.")
        self.value, self.problem, self.fix, self.resource = value, problem, fix, resource


class NotThisRun(UserError):
    """A request for a run of a job by a pod that does not belong to this run."""

    code = "not_this_run"


class SecretUnavailable(UserError):
    """A secret that a job may not have, or that its owner has not stored; the text says what to do."""

    code = "secret_unavailable"


class UnusableFolder(UserError):
    """A working folder in which a job cannot run; `fault` is the end of a clause that says why."""

    code = "unusable_folder"

    def __init__(self, folder: str, fault: str) -> None:
        super().__init__(
            f"The working folder {quoted(folder)} {fault}, on the machine on which jobs run. Nothing was sent. Write "
            "the path of a folder there that you can open."
        )
        self.folder, self.fault = folder, fault


class UnknownSoftware(UserError):
    """The name of software with which a job cannot run."""

    code = "unknown_software"

    def __init__(self, software: str, offered: tuple[str, ...]) -> None:
        choices = f"Offered are: {', '.join(offered)}." if offered else "No other software is offered here."
        super().__init__(
            f"Jobs cannot run with the software {quoted(software)}. {choices} A job that names none runs with the "
            "software of its notebook."
        )
        self.software, self.offered = software, offered


class CannotContinue(UserError):
    """A job that cannot begin with the checkpoints of the job that it names; the text says why and what to do."""

    code = "cannot_continue"


class UnknownQueue(UserError):
    """The name of a queue that does not exist."""

    code = "unknown_queue"

    def __init__(self, queue: str, known: tuple[str, ...]) -> None:
        choices = ", ".join(known) if known else "none: ask your administrator to add you to a queue"
        super().__init__(f"There is no training queue named {quoted(queue)}. Queues you can use: {choices}.")
        self.queue, self.known = queue, known


class NotAMember(UserError):
    """A queue that the user may not use."""

    code = "not_a_member"

    def __init__(self, user: str, queue: str, allowed: tuple[str, ...]) -> None:
        choices = ", ".join(allowed) if allowed else "none: ask your administrator"
        super().__init__(
            f"{shorten(user)} is not a member of the queue {quoted(queue)}. Queues you can use: {choices}."
        )
        self.user, self.queue, self.allowed = user, queue, allowed


class PriorityTooHigh(UserError):
    """A priority above the highest one that the user may give in the queue."""

    code = "priority_too_high"

    def __init__(self, *, requested: int, highest: int, queue: str) -> None:
        super().__init__(
            f"You asked for priority {requested}, but the highest that you may give to a job in the queue {queue!r} is "
            f"{highest}. Choose {highest} or less, or ask a manager of the queue or an administrator to send the job."
        )
        self.requested, self.highest, self.queue = requested, highest, queue


class QuotaExceeded(UserError):
    """A request beyond the fixed quota; the fields say by how much, and what holds the quota."""

    code = "quota_exceeded"

    def __init__(self, *, requested: str, quota: str, used: str, holders: tuple[str, ...]) -> None:
        held = f" ({', '.join(holders)})" if holders else ""
        fewer = "less" if Decimal(used) < Decimal(quota) else "no GPU"
        fix = (
            f"Stop one of those, or choose {fewer}."
            if holders
            else f"Choose {fewer}, or ask your administrator for more."
        )
        super().__init__(
            f"You asked for {requested} GPU, but your fixed quota is {quota} GPU and {used} of it is in use{held}. "
            + fix
        )
        self.requested, self.quota, self.used, self.holders = requested, quota, used, holders


class NeverFits(UserError):
    """A request that can never be placed, however long it waits, because of `resource`."""

    code = "never_fits"

    def __init__(self, sentence: str, resource: Resource = Resource.GPU) -> None:
        super().__init__(sentence)
        self.resource = resource


class NotFound(UserError):
    """An object that does not exist or that this user may not see; the two are not told apart on purpose."""

    code = "not_found"


class NotYours(UserError):
    """An object that this user may see, but whose content only its owner may read."""

    code = "not_yours"


class ManagersOnly(UserError):
    """A change of an own job that would undo what a manager of its queue or an administrator decided for it."""

    code = "managers_only"


class Conflict(UserError):
    """A request that the present state of the object does not allow."""

    code = "conflict"


class KeyReused(UserError):
    """A request with the idempotency key of another request."""

    code = "key_reused"


class TooLarge(UserError):
    """A request with more bytes than the limit."""

    code = "too_large"


class InvalidJson(UserError, ValueError):
    """A text that is no JSON document, or one beyond the bounds of its reader; the text is a phrase that says why."""

    code = "bad_json"


class TooMuchJson(InvalidJson):
    """A JSON document that is beyond the bounds of its reader; the text is a phrase that says why."""


class UnusableFile(UserError):
    """A file that user code can write and that cannot be read within the bounds of its reader; the text says why."""

    code = "unusable_file"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"The file {name} cannot be used: {problem}.")
        self.name, self.problem = name, problem


class UnansweredFile(UnusableFile):
    """A file whose file system gave no answer in time, so that a later attempt may succeed; the text says so."""

    def __init__(self, name: str, problem: str, *, asked: bool = True) -> None:
        super().__init__(name, problem)
        #: Whether anything is known about the file system; False = others of the user are silent, so it was left alone.
        self.asked = asked


class LimitReached(UserError):
    """A request beyond a limit on what one user or one queue may have at one time; the text says the numbers."""

    code = "limit_reached"


class StorageFull(MachineError):
    """A write that the disk refused; nothing was kept."""

    code = "storage_full"


class StoreUnavailable(MachineError):
    """A database that does not answer. Whether the last write was kept is not known."""

    code = "store_unavailable"

    def __init__(self, place: str, told: str) -> None:
        super().__init__(f"The scheduler's database {place} does not answer ({told}). The service tries again.")
        self.place, self.told = place, told


class ContentsUnavailable(MachineError):
    """A place outside the database, for large contents of jobs, that refuses or does not answer; the text says why."""

    code = "contents_unavailable"


class StatementCancelled(MachineError):
    """A statement that the database ended before it was done, by its time limit or for an administrator.

    Nothing of its transaction was kept.
    """

    code = "statement_cancelled"

    def __init__(self, place: str, told: str) -> None:
        super().__init__(
            f"The scheduler's database {place} cancelled a statement ({told}). Nothing was changed; try again. If this "
            "happens often, the database is too slow."
        )
        self.place, self.told = place, told


class DamagedDatabase(AdminError):
    """A database file that SQLite cannot read: a damaged page or header, or a file that was cut off."""

    def __init__(self, place: str, told: str) -> None:
        super().__init__(
            f"The database {place} is damaged ({told}). Stop the Hub, move this file away, and put a backup in its "
            f"place: jupyter-gq restore BACKUP {place}. Without a backup, `sqlite3 {place} .recover` saves what can be "
            "read."
        )
        self.place, self.told = place, told


class StoreAway(MachineError):
    """A database that has not answered for so long that another service should lead, which may reach it."""

    code = "store_away"

    def __init__(self, last: StoreUnavailable, seconds: float) -> None:
        super().__init__(
            f"This service has not reached its database for {seconds:.0f} s, so it steps back: another service that "
            f"reaches the database leads, or this one again once it does. {last}"
        )


class Superseded(MachineError):
    """A write after another service has taken over: this service must not act any more. Nothing was changed."""

    code = "superseded"

    def __init__(self, own: int, found: int) -> None:
        super().__init__(
            f"Another scheduler service has taken over (its epoch is {found}, ours {own}), so this one ends. "
            "If you see this again and again, two services of one installation are running."
        )
        self.own, self.found = own, found


class NotLeading(MachineError):
    """An act of a service that does not lead: it could not renew its lease, or has none yet."""

    code = "not_leading"

    def __init__(self, sentence: str = "") -> None:
        super().__init__(
            sentence or "The service could not renew its lease, so nothing is started or stopped until it has."
        )


class BackendError(MachineError):
    """An order that a backend's machine or cluster did not carry out."""

    code = "backend_error"


class StartUnanswered(BackendError):
    """A start that was given up because the files of the job gave no answer in time; another attempt may succeed."""


class InvalidSnapshot(AdminError, ValueError):
    """An input of a cycle that contradicts itself."""

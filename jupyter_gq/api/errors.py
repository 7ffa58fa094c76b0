"""The HTTP status and the `Problem` of each error. Statuses are chosen here and in no room below."""

import errno
from collections.abc import Iterable, Mapping

from jupyter_gq.client.models import Problem
from jupyter_gq.domain import errors
from jupyter_gq.domain.errors import HttpRefusal

from .access import ADMIN_SCOPE

_HOW_TO_ADMIN = (
    " Servers' tokens do not have it: an administrator makes one on the Hub's page Token, for `jupyter-gq login` or "
    "for JUPYTER_GQ_TOKEN. On one machine, configure(c, admins=[...]) in the configuration of the Hub names "
    "administrators; on Kubernetes, the chart's admins does."
)
#: The status of each domain error, and the field of the request that it concerns. The first match counts.
STATUS: tuple[tuple[type[errors.JupyterGQError], int, str | None], ...] = (
    (errors.InvalidAmount, 422, None),
    (errors.UnknownQueue, 422, "queue"),
    (errors.UnknownSoftware, 422, "software"),
    (errors.UnusableFolder, 422, "bundle.manifest.cwd"),
    (errors.CannotContinue, 422, "continue_from"),
    (errors.NeverFits, 422, None),
    (errors.NotAMember, 403, "queue"),
    (errors.PriorityTooHigh, 403, "priority"),
    (errors.QuotaExceeded, 403, "gpus"),
    (errors.LimitReached, 429, None),
    (errors.NotThisRun, 403, None),
    (errors.NotFound, 404, None),
    (errors.NotYours, 403, None),
    (errors.ManagersOnly, 403, None),
    (errors.Conflict, 409, None),
    (errors.KeyReused, 422, "Idempotency-Key"),
    (errors.UnusableFile, 409, None),
    (errors.TooLarge, 413, None),
    (errors.StorageFull, 507, None),
    (errors.StoreUnavailable, 503, None),
    (errors.ContentsUnavailable, 503, None),
    (errors.StatementCancelled, 503, None),
    (errors.Superseded, 503, None),
    (errors.NotLeading, 503, None),
    (errors.BackendError, 503, None),
    (errors.UserError, 422, None),
)
#: The field of a request that names each resource.
FIELDS: Mapping[errors.Resource, str] = {
    errors.Resource.GPU: "gpus",
    errors.Resource.CPU: "cpus",
    errors.Resource.MEMORY: "memory",
    errors.Resource.MODEL: "gpu_model",
    errors.Resource.PREFERRED_MODELS: "preferred_gpu_models",
    errors.Resource.LEVEL: "within",
    errors.Resource.TASKS: "min_tasks",
    errors.Resource.GPU_MEMORY: "gpu_memory",
}


#: What the system says when it has no thread or process, no open file or no memory left.
_EXHAUSTED = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class ApiRefusal(HttpRefusal):
    """A request that is not granted, for a reason of the domain, or because of its token or its form."""

    def __init__(self, status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {problem.code}: {problem.message}")
        self.status, self.problem, self.headers = status, problem, dict(headers or {})


def refusal(status: int, code: str, message: str, *, field: str | None = None, **headers: str) -> ApiRefusal:
    """Return a refusal with this status, code and message; `field` names the part of the request that is at fault.

    Further keywords are headers of the answer: `Retry_After` is sent as `Retry-After`.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ApiRefusal(status, Problem(code=code, message=message, field=field), named)


def raised_error(arguments: Mapping[str, object]) -> BaseException | None:
    """Return the exception in the arguments that tornado gives to `write_error`; None if there is none."""
    exc_info = arguments.get("exc_info")
    error = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) == 3 else None
    return error if isinstance(error, BaseException) else None


def refusal_of(error: BaseException | None) -> ApiRefusal | None:
    """Return the refusal that answers this error, by the table `STATUS`; None for an unexpected error or no error."""
    if isinstance(error, ApiRefusal):
        return error
    for kind, status, field in STATUS:
        if isinstance(error, kind):
            code = getattr(error, "code", "invalid_request")
            resource = getattr(error, "resource", None)
            return refusal(status, code, str(error), field=field if resource is None else FIELDS[resource])
    return None


def internal(incident: str) -> ApiRefusal:
    """Return the refusal of 500 for an unexpected error.

    The message names only `incident`, the error's id in the log.
    """
    return refusal(
        500,
        "internal",
        f"Something went wrong in the scheduler service. Tell your administrator this number: {incident}.",
    )


def exhausted(error: BaseException | None) -> ApiRefusal | None:
    """Return the refusal of 503 for an error of a machine that has no thread, open file or memory left.

    Returns None for every other error, and for no error.
    """
    # Python has no class for a thread that cannot be started.
    is_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
    is_resource = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _EXHAUSTED)
    if not is_thread and not is_resource:
        return None
    return refusal(
        503,
        "exhausted",
        "The machine of the scheduler service has no processes, open files or memory left for this request. Try again "
        "in a minute. If this stays, tell your administrator.",
        Retry_After="30",
    )


def method_not_allowed(method: str | None, allowed: Iterable[str]) -> ApiRefusal:
    """Return the refusal of 405 for a method that a path does not have; `allowed` are those that it has."""
    listed = ", ".join(sorted(allowed))
    return refusal(405, "method_not_allowed", f"{method} is not possible here; use {listed}.", Allow=listed)


def no_token() -> ApiRefusal:
    """Return the refusal of 401 for a request without a token."""
    return refusal(
        401,
        "no_token",
        "This request carries no token. Send a JupyterHub token in the header 'Authorization: token ...'.",
        WWW_Authenticate='token realm="jupyter-gq"',
    )


def invalid_token() -> ApiRefusal:
    """Return the refusal of 401 for a token that the Hub does not know, or that is not valid for the job."""
    return refusal(
        401,
        "invalid_token",
        "This token is not valid, or not any more. Send a valid JupyterHub token: the token of a stopped server has "
        "expired.",
        WWW_Authenticate='token realm="jupyter-gq", error="invalid_token"',
    )


def refused_by_hub() -> ApiRefusal:
    """Return the refusal of 401 for a token that the Hub refuses.

    The Hub refuses an invalid token in the same way as any token while its database fails.
    """
    return refusal(
        401,
        "invalid_token",
        "The Hub refuses this token. Most often it is not valid any more: the token of a stopped server has expired. "
        "A Hub whose database fails, such as on a full disk, refuses every token; the log of the Hub says so.",
        WWW_Authenticate='token realm="jupyter-gq", error="invalid_token"',
    )


def missing_scope(scope: str) -> ApiRefusal:
    """Return the refusal of 403 for a valid token that lacks this scope."""
    return refusal(
        403,
        "missing_scope",
        f"This token lacks the scope {scope!r}. Use a token that has it, or ask your administrator for it."
        + (_HOW_TO_ADMIN if scope == ADMIN_SCOPE else ""),
    )


def hub_unreachable(why: str) -> ApiRefusal:
    """Return the refusal of 503 for a token that cannot be checked because of the Hub; `why` says what the Hub does."""
    return refusal(
        503,
        "hub_unreachable",
        f"JupyterHub cannot be asked who you are: {why}. Try again in a moment.",
        Retry_After="2",
    )


def too_many_new_tokens() -> ApiRefusal:
    """Return the refusal of 503 for a new token whose turn did not come in time, after others of its address."""
    return refusal(
        503,
        "too_many_new_tokens",
        "Too many new tokens came from your address, so nobody was asked about this one. Try again in a moment.",
        Retry_After="2",
    )


def not_ready(why: str) -> ApiRefusal:
    """Return the refusal of 503 by a service that does not answer requests now; `why` is a sentence."""
    return refusal(503, "not_ready", why, Retry_After="2")


def body_too_large(limit: int) -> ApiRefusal:
    """Return the refusal of 413 for a body above the limit of its route, in bytes."""
    return refusal(
        413,
        "too_large",
        f"This request is larger than the limit of {limit / 2**20:.1f} MiB. Send less: clear large outputs and "
        "attachments, or put data into files instead of cells.",
    )


def body_too_slow(seconds: float) -> ApiRefusal:
    """Return the refusal of 408 for a body that has not come completely within its time-out, in seconds."""
    return refusal(
        408,
        "too_slow",
        f"The body of this request was not complete after {seconds:g} s. Send it again over a faster connection, or "
        "send less.",
        Connection="close",
    )


def too_many_requests(limit: int) -> ApiRefusal:
    """Return the refusal of 429 for a request of a user who has `limit` requests under way."""
    return refusal(
        429,
        "too_many_requests",
        f"You have {limit} requests under way, and at most {limit} are possible at one time. Try again when some of "
        "them have been answered.",
        Retry_After="1",
    )


def no_connection_left() -> ApiRefusal:
    """Return the refusal of 503 for an authorised request while requests and streams of users hold all connections."""
    return refusal(
        503,
        "no_connection_left",
        "The scheduler service has as many requests and event streams as it can hold. Try again in a moment.",
        Retry_After="5",
    )

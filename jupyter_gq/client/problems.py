"""How a call to the service can fail. Without pydantic: the runner imports this while a job starts."""

from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.errors import HttpRefusal


class ProblemLike(Protocol):
    """The fields that `client.models.Problem` and `PlainProblem` share."""

    @property
    def code(self) -> str:
        """Stable word for programs."""

    @property
    def message(self) -> str:
        """The fault, the expectation and the remedy, as one or two sentences."""

    @property
    def field(self) -> str | None:
        """Part of the request that it is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainProblem:
    """The service's answer to a request that it did not grant."""

    #: Stable word for programs, such as "unknown_queue".
    code: str
    #: One or two sentences for a person.
    message: str
    #: Part of the request that is at fault, such as "gpus".
    field: str | None = None


class ServiceError(HttpRefusal):
    """An error that the service answered with; `status` is that of HTTP, `problem` says why in words."""

    def __init__(self, status: int, problem: ProblemLike) -> None:
        super().__init__(f"{problem.message} ({status} {problem.code})")
        self.status, self.problem = status, problem


class ServiceUnavailable(ServiceError):
    """The service could not be reached, or it says that it (or the Hub behind it) cannot answer now.

    Asking again later is right; nothing is known about whether the request was carried out.
    `status` is 502, 503 or 504 as the service or a proxy said, and 503 when no connection came about.
    """

    @classmethod
    def no_connection(cls, url: str, why: object) -> "ServiceUnavailable":
        """No answer from this address."""
        return cls(
            503,
            PlainProblem(
                code="service_unavailable",
                message=f"The GPU scheduler service does not answer at {url}: "
                f"{str(why) or type(why).__name__}. It may be restarting; try again in a moment.",
            ),
        )

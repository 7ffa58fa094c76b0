"""The errors of calls to the service. Without pydantic: the runner imports this while a job starts."""

from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.errors import HttpRefusal


class ProblemLike(Protocol):
    """The fields that `client.models.Problem` and `PlainProblem` share."""

    @property
    def code(self) -> str:
        """A stable word for programs."""

    @property
    def message(self) -> str:
        """The fault, the expectation and the remedy, as one or two sentences."""

    @property
    def field(self) -> str | None:
        """The part of the request that is at fault; None if it is not a single part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainProblem:
    """The reason why the service refused a request.

    The fields are those of `client.models.Problem`, without pydantic.
    """

    #: Stable word for programs, such as "unknown_queue".
    code: str
    #: One or two sentences for a person.
    message: str
    #: Part of the request that is at fault, such as "gpus".
    field: str | None = None


class ServiceError(HttpRefusal):
    """A refusal by the service, with the HTTP `status` and the `problem` in words."""

    def __init__(self, status: int, problem: ProblemLike) -> None:
        super().__init__(f"{problem.message} ({status} {problem.code})")
        self.status, self.problem = status, problem


class ServiceUnavailable(ServiceError):
    """A failure to get an answer from the service, or from the Hub behind it.

    Another attempt later may succeed; it is unknown whether the request was carried out. `status` is 502, 503 or 504 as
    the service or a proxy answered, and 503 if there was no connection.
    """

    @classmethod
    def no_connection(cls, url: str, why: object) -> "ServiceUnavailable":
        """Return the error, with status 503, for a service at `url` that does not answer; its message says why.

        For an error of the system, that is its text without its number.
        """
        told = (why.strerror if isinstance(why, OSError) else None) or str(why) or type(why).__name__
        return cls(
            503,
            PlainProblem(
                code="service_unavailable",
                message=f"The GPU scheduler service does not answer at {url}: {told}. It may be restarting; try again "
                "in a moment.",
            ),
        )

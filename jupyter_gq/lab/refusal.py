"""The refusal of a request without asking the service, and what the page is told of any refusal."""

from collections.abc import Sequence

from jupyter_gq.client.problems import PlainProblem, ProblemLike, ServiceError
from jupyter_gq.domain.errors import HttpRefusal

#: The code of a failure to reach the service, whose own sentence has its address and the error of the connection.
_AWAY = "service_unavailable"
SERVICE_AWAY = (
    "The GPU scheduler does not answer. It may be restarting: try again in a moment. Running jobs continue. If it "
    "stays so, tell your administrator; the log of this server says more."
)


class RefusedRequest(HttpRefusal):
    """A request that is answered with this problem and HTTP status; nothing was sent to the service.

    `other_jobs` are the ids of jobs of which the page does not know, and which are the reason; none for other reasons.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        status: int = 422,
        other_jobs: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.other_jobs = status, list(other_jobs)
        self.problem = PlainProblem(code=code, message=message, field=field)


def find_problem(error: RefusedRequest | ServiceError) -> ProblemLike:
    """Return the problem as the user is told: without the address of a service that is away."""
    if isinstance(error, ServiceError) and error.problem.code == _AWAY:
        return PlainProblem(code=_AWAY, message=SERVICE_AWAY)
    return error.problem

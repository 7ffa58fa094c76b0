"""The refusal of a request without asking the service."""

from jupyter_gq.client.problems import PlainProblem
from jupyter_gq.domain.errors import HttpRefusal


class RefusedRequest(HttpRefusal):
    """A request that is answered with this problem and HTTP status; nothing was sent to the service."""

    def __init__(self, code: str, message: str, *, field: str | None = None, status: int = 422) -> None:
        super().__init__(message)
        self.status = status
        self.problem = PlainProblem(code=code, message=message, field=field)

"""The agent's only connection: it dials the service and says who it is with the token of its pod.

See docs/decisions/0026-agents-call-the-service.md.
"""

from pathlib import Path

from pydantic import ValidationError

from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.problems import PlainProblem, ServiceError
from jupyter_gq.client.transport import Transport, join_path
from jupyter_gq.domain.errors import MachineError

#: Seconds that an answer may take beyond the wait that was asked for.
_SLACK = 15.0


class TokenMissing(MachineError):
    """A token file that cannot be read or is empty; the text is a sentence."""


class _PodTransport(Transport):
    """Shows a projected token, which the kubelet renews: it is read anew for each request."""

    def __init__(self, url: str, token_file: Path, timeout: float) -> None:
        super().__init__(url, "", timeout)
        self._token_file = token_file

    def authorization(self) -> dict[str, str]:
        """Return the header that says which pod asks."""
        try:
            token = self._token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenMissing(f"The token file {self._token_file} cannot be read: {error}.") from error
        if not token:
            raise TokenMissing(f"The token file {self._token_file} is empty: the kubelet has not filled it yet.")
        return {"Authorization": f"Bearer {token}"}


class ServiceLink:
    """Reports of one node. Every failure is a `ServiceError` or `TokenMissing` with a sentence."""

    def __init__(self, url: str, token_file: Path, node: str, *, longest_wait: float) -> None:
        self._transport = _PodTransport(url, token_file, longest_wait + _SLACK)
        self._path = join_path("agents", node, "report")

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._transport.url

    async def report(self, report: AgentReport, wait: int) -> AgentOrders:
        """Tell what is seen; the answer comes when there are new orders, or after `wait` seconds."""
        body = report.model_dump_json().encode()
        answer = await self._transport.request("POST", self._path, body=body, query={"wait": wait})
        try:
            return AgentOrders.model_validate_json(answer.body)
        except ValidationError as error:
            problem = PlainProblem(
                code="unexpected_answer",
                message=f"The answer of {self.url} is no AgentOrders: the service and this agent may be of different "
                "versions.",
            )
            raise ServiceError(502, problem) from error

    def close(self) -> None:
        """Release the connection."""
        self._transport.close()

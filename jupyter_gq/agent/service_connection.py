"""The connection of the agent to the service. The agent opens it and authenticates with the token of its pod.

See docs/decisions/0026-agents-call-the-service.md.
"""

import stat
from pathlib import Path

from pydantic import ValidationError

from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.connection.transport import Transport, join_path
from jupyter_gq.client.problems import PlainProblem, ServiceError
from jupyter_gq.domain.errors import MachineError

#: Seconds that an answer may take beyond the time for which the service was asked to wait.
_EXTRA_TIMEOUT = 15.0


class TokenMissing(MachineError):
    """A token file that is empty or cannot be read; the text is a sentence."""


class _PodTransport(Transport):
    """A transport that reads the projected token anew for each request, because the kubelet renews the token."""

    def __init__(self, url: str, token_file: Path, timeout: float) -> None:
        super().__init__(url, "", timeout)
        self._token_file = token_file

    def authorization(self) -> dict[str, str]:
        """Return the header that authenticates the pod; raise `TokenMissing` if there is no token."""
        try:
            if not stat.S_ISREG(self._token_file.stat().st_mode):  # to read a pipe may wait for ever
                raise TokenMissing(f"The token file {self._token_file} is no regular file.")
            token = self._token_file.read_text().strip()
        except (OSError, ValueError) as error:  # a ValueError: no text, or no path
            raise TokenMissing(f"The token file {self._token_file} cannot be read: {error}.") from error
        if not token:
            raise TokenMissing(f"The token file {self._token_file} is empty: the kubelet has not filled it yet.")
        return {"Authorization": f"Bearer {token}"}


class ServiceConnection:
    """The connection of the agent of one node to the service."""

    def __init__(self, url: str, token_file: Path, node: str, *, longest_wait: float) -> None:
        """Create a connection for the agent of `node`; a report may ask the service to wait `longest_wait` seconds."""
        self._transport = _PodTransport(url, token_file, longest_wait + _EXTRA_TIMEOUT)
        self._path = join_path("agents", node, "report")

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._transport.url

    async def report(self, report: AgentReport, wait: int) -> AgentOrders:
        """Send a report; return the orders, which come once they change, or after `wait` seconds.

        Raise `ServiceError` or `TokenMissing` with a sentence if the report fails.
        """
        # A service of an older release refuses fields that it does not know, even if they are null.
        body = report.model_dump_json(exclude_none=True).encode()
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
        """Close the connection."""
        self._transport.close()

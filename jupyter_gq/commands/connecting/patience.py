"""The waiting of a command while the service does not answer, such as while it restarts.

Each request is repeated by itself, at the pace of `notebook.pace`. A request that was carried out although its answer
was lost is harmless when repeated: a job is sent with a key, and a change says what shall be. A repeated cancel, drain
or undrain may be told that it is done already.

See docs/decisions/0247-let-each-command-wait-for-a-restart.md.
"""

import asyncio
import re
import secrets
import socket
import ssl
import sys
from collections.abc import Callable, Mapping

from jupyter_gq.client.connection.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.connection.transport import Answer, Transport
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.clock import monotonic
from jupyter_gq.notebook.pace import INTERVAL, Pace

#: Seconds after the beginning of a request within which it is tried again; the last try may take longer.
MOMENT = 15.0
#: What a failed connection says if a server that speaks plain HTTP is asked for HTTPS.
NOT_HTTPS = re.compile("TLS handshake|WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST")
#: The code of a socket at which another program listens.
_UNTRUSTED = "untrusted_service"
#: Codes with which the service says what will not pass in a moment, or what a repetition makes worse.
_LASTING = frozenset({"backend_error", "statement_cancelled"})
#: Failures of a connection that mean a wrong address, or a certificate that is not trusted.
_WRONG = (socket.gaierror, ssl.SSLCertVerificationError)


class Patience:
    """How long the requests of a command wait for an answer, and whom they tell of it. All of them share one."""

    def __init__(self, longest: float | None) -> None:
        """Let each request be tried again for `longest` seconds; None = until somebody answers."""
        self.longest = longest
        #: Shows that the service has gone away (False), or that it has come back (True).
        self.show: Callable[[bool], None] = self._print
        self._has_answered = self._is_away = False

    def may_pass(self, error: ServiceUnavailable) -> bool:
        """Return whether a restart may be why nobody answered.

        Before the first answer, the address may also be wrong, or another program may listen there.
        """
        if error.problem.code in _LASTING:
            return False
        wrong = isinstance(error.__cause__, _WRONG) or NOT_HTTPS.search(error.problem.message) is not None
        return self._has_answered or not (wrong or error.problem.code == _UNTRUSTED)

    async def wait(self, began: float, pause: float) -> bool:
        """Wait `pause` seconds, and return whether a request that began at the time `began` is to be repeated."""
        if self.longest is not None and monotonic() + pause > began + self.longest:
            return False
        self._note(is_away=True)
        await asyncio.sleep(pause)
        return True

    def note_answer(self) -> None:
        """Show that the service answers again, if it was away."""
        self._has_answered = True
        self._note(is_away=False)

    def _note(self, *, is_away: bool) -> None:
        if is_away is not self._is_away:
            self._is_away = is_away
            self.show(not is_away)

    def _print(self, available: bool) -> None:
        """Print on standard error that the service has gone away or has come back."""
        waits = f"The service cannot answer now; this command tries again for {self.longest:.0f} s."
        print_plain("The service answers again." if available else waits, sys.stderr)
        sys.stderr.flush()


class PatientClient(ServiceClient):
    """A client of the service for commands, whose requests wait while the service does not answer."""

    def __init__(self, url: str, token: str, patience: Patience) -> None:
        super().__init__(url, token)
        self.patience = patience
        self._transport = _PatientTransport(url, token, patience)


class _PatientTransport(Transport):
    """A transport that repeats a request as long as the patience lasts, if a restart may be why nobody answered."""

    def __init__(self, url: str, token: str, patience: Patience) -> None:
        super().__init__(url, token)
        self._patience = patience

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request as `Transport` does; raise its last error if nobody has answered in time."""
        began, pace = monotonic(), Pace(INTERVAL)
        while True:
            try:
                answer = await super().request(method, path, body=body, query=query, headers=headers)
            except ServiceUnavailable as error:
                pause = pace.next_pause(answered=False) * (0.5 + secrets.randbelow(500) / 1000)  # many commands wait
                if not self._patience.may_pass(error) or not await self._patience.wait(began, pause):
                    raise
            else:
                self._patience.note_answer()
                return answer

"""The condition of a service while another one leads: alive, and not ready.

Such a service answers health, readiness and the one metric that says that it waits. Tokens are not checked: an
answer could be wrong, and a pod that is told that its token is invalid ends.
"""

from collections.abc import Callable

from jupyter_gq.client.models import Health


class Standby:
    """The status of a service that waits for its place."""

    def __init__(self, version: str, unready: Callable[[], str]) -> None:
        """Store the version; `unready` returns as a sentence why the service does not answer requests."""
        self._version, self._unready = version, unready

    def check_health(self) -> Health:
        """Return the status "ok", because waiting is no fault, with the reason for waiting in `devices`."""
        return Health(status="ok", version=self._version, devices=self._unready(), policy="ok")

    def explain_unready(self) -> str:
        """Return, as one sentence, why the service does not answer requests."""
        return self._unready()

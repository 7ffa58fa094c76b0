"""What a service answers while another one leads: that it is alive, that it is not ready, and nothing else.

Nobody's token is looked at: what this service says of it could be wrong, and a pod that is told that its token is
worth nothing ends.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from jupyter_gq.client.models import Health
from jupyter_gq.domain.errors import NotLeading


class Standby:
    """Stands where the controller will be; every act but those here is refused."""

    def __init__(self, version: str, unready: Callable[[], str]) -> None:
        self._version, self._unready = version, unready

    def health(self) -> Health:
        """It is well: waiting is no fault."""
        return Health(status="ok", version=self._version, devices=self._unready(), policy="ok")

    def unready(self) -> str:
        """Why it does not answer requests."""
        return self._unready()

    def refuse(self) -> NoReturn:
        """Nobody is let in."""
        raise NotLeading(self._unready())

    def __getattr__(self, act: str) -> Any:
        """Acts are those of `Facade`."""
        raise NotLeading(self._unready())

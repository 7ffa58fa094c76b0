"""Where the service listens, and when it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .app import make_application, make_server
from .auth import HubAuthenticator
from .facade import Facade


@dataclass(kw_only=True, slots=True)
class Place:
    """Where the service listens, and how it learns that it shall end."""

    url: str
    prefix: str
    authenticator: HubAuthenticator
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Renews the lease beside everything else; None where there is none.
    keeping: asyncio.Task[None] | None = None

    @property
    def service_url(self) -> str:
        """The address that others use."""
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.netloc}{self.prefix}"

    @contextlib.asynccontextmanager
    async def answering(self, controller: Facade, **options: Any) -> AsyncIterator[None]:
        """Answer requests through this controller."""
        address = urlsplit(self.url)
        server = make_server(make_application(controller, self.authenticator, self.prefix, **options))
        server.listen(address.port or 80, address.hostname)
        try:
            yield
        finally:
            server.stop()
            await server.close_all_connections()

    async def until_the_end(self, *working: Coroutine[Any, Any, None]) -> None:
        """Work until a signal comes, or one of these ends; raise what ended it."""
        tasks = [asyncio.create_task(each) for each in (*working, _wait(self.ended))]
        tasks += [self.keeping] if self.keeping is not None else []
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others - {self.keeping}:
            task.cancel()
        await asyncio.gather(*(others - {self.keeping}), return_exceptions=True)
        for task in done:
            task.result()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()

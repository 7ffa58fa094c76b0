"""The address on which the service listens, and the event that ends the service."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer

from jupyter_gq.domain.errors import AdminError

from .app import make_application, make_server
from .auth import HubAuthenticator
from .pods import PodAuthenticator
from .services import Services, Status
from .wiring import DEFAULT_BUNDLE, DEFAULT_BUNDLE_VALUES, Wiring


@dataclass(kw_only=True, slots=True)
class Listener:
    """Serves the API on one address until the service is told to end."""

    url: str
    prefix: str
    authenticator: HubAuthenticator
    #: Set by a signal: the service ends.
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Renews the lease beside everything else; None if there is no lease.
    keeping: asyncio.Task[None] | None = None

    @property
    def service_url(self) -> str:
        """The address that clients use: scheme and host of `url`, with the prefix."""
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.netloc}{self.prefix}"

    @contextlib.asynccontextmanager
    async def serve(
        self,
        status: Status,
        services: Services | None = None,
        *,
        page: bool = False,
        bundle_limit: Callable[[], int] = lambda: DEFAULT_BUNDLE,
        bundle_values: Callable[[], int] = lambda: DEFAULT_BUNDLE_VALUES,
        pods: PodAuthenticator | None = None,
    ) -> AsyncIterator[None]:
        """Listen on the address, and answer requests while the context is open; without `services`, only say why not.

        `page` adds the web page; the other arguments are fields of `Wiring`. In the end all connections are closed.
        Raises `AdminError` if the address cannot be used.
        """
        wiring = Wiring(
            status=status,
            services=services,
            authenticator=self.authenticator,
            bundle_limit=bundle_limit,
            bundle_values=bundle_values,
            pods=pods,
        )
        address = urlsplit(self.url)
        server = make_server(make_application(wiring, self.prefix, page=page))
        self._listen(server, address.port or 80, address.hostname)
        try:
            yield
        finally:
            server.stop()
            await server.close_all_connections()

    def _listen(self, server: HTTPServer, port: int, host: str | None) -> None:
        """Bind the server to its address; raise `AdminError` with a sentence if that is refused."""
        try:
            server.listen(port, host)
        except OSError as error:
            what = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise AdminError(
                f"It cannot listen on {self.url}: {what}. End that program, or choose another port for the service."
            ) from error

    async def run_until_ended(self, *working: Coroutine[object, None, None]) -> None:
        """Run the coroutines until `ended` is set, or until the first of them or the renewal of the lease ends.

        The other coroutines are cancelled, and the error of the first is raised. The renewal of the lease is not
        cancelled.
        """
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

"""The addresses on which the service listens, and the event that ends the service.

On one machine there are two: a Unix socket for programs that hold tokens, and a port for the Hub's proxy only.
"""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket

from jupyter_gq.client.connection.early_answer import end_early_answer
from jupyter_gq.client.connection.service_address import SocketPlace
from jupyter_gq.client.connection.service_port import is_in_use
from jupyter_gq.connections.registry import Connections
from jupyter_gq.domain.errors import AdminError

from .app import make_application, make_server
from .auth import HubAuthenticator
from .pods import PodAuthenticator
from .services import Services, Status
from .wiring import DEFAULT_BUNDLE, DEFAULT_BUNDLE_VALUES, Wiring


@dataclass(kw_only=True, slots=True)
class Listener:
    """The server of the API on its addresses, until the service is told to end."""

    url: str
    prefix: str
    authenticator: HubAuthenticator
    #: Unix socket of a service on one machine; None on a cluster.
    socket: SocketPlace | None = None
    #: The open connections, with their limits.
    connections: Connections = field(default_factory=Connections)
    #: Set by a signal: the service ends.
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: Renews the lease beside everything else; None if there is no lease.
    keeping: asyncio.Task[None] | None = None

    @property
    def service_url(self) -> str:
        """The address that clients use, with the prefix: the socket if there is one, else scheme and host of `url`."""
        if self.socket is not None:
            return self.socket.url(self.prefix)
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.netloc}{self.prefix}"

    @property
    def place(self) -> str:
        """The addresses of the service in words, for the log."""
        port = f"{self.url}{self.prefix}"
        return port if self.socket is None else f"{self.service_url}, for the Hub's proxy {port}"

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
        """Listen on the addresses, and answer requests while the context is open.

        Without `services`, each request is refused with the reason in `status`. `page` adds the web page; the other
        arguments are fields of `Wiring`. In the end all connections are closed. Raises `AdminError` if an address
        cannot be used.
        """
        wiring = Wiring(
            status=status,
            services=services,
            authenticator=self.authenticator,
            bundle_limit=bundle_limit,
            bundle_values=bundle_values,
            pods=pods,
            connections=self.connections,
        )
        server = make_server(make_application(wiring, self.prefix, page=page))
        try:
            self._listen_on_port(server)
            if self.socket is not None:
                _listen_on_socket(server, self.socket)
            yield
        finally:
            server.stop()
            await server.close_all_connections()

    def _listen_on_port(self, server: HTTPServer) -> None:
        """Bind the server to the port in `url`; raise `AdminError` with a sentence if that is refused.

        On one machine the Hub holds the port, and shares it with programs of its account.
        """
        address = urlsplit(self.url)
        port, is_shared = address.port or 80, self.socket is not None
        end_early_answer()
        if is_shared and is_in_use(port):  # otherwise each of two services would get half of the requests
            raise self._make_port_error("another program uses it")
        try:
            server.add_sockets(bind_sockets(port, address.hostname, reuse_port=is_shared))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            why = "another program uses it" if in_use else error.strerror or str(error)
            raise self._make_port_error(why) from error

    def _make_port_error(self, why: str) -> AdminError:
        return AdminError(
            f"The service cannot listen on {self.url}: {why}. End that program, or choose another port for the service."
        )

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


def _listen_on_socket(server: HTTPServer, place: SocketPlace) -> None:
    """Bind the server to a Unix socket, to which all accounts of the machine can connect.

    The folder is made if it is missing. A socket that an earlier service has left is replaced. Raises `AdminError` with
    a sentence if the socket cannot be used, or if another account could replace it.
    """
    folder = place.path.parent
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(0o711)
        server.add_socket(bind_unix_socket(str(place.path), mode=0o666))
        fault = place.find_fault()
    except (OSError, ValueError) as error:
        raise AdminError(f"The service cannot listen at the Unix socket {place.path}: {error}.") from error
    if fault:
        raise AdminError(
            f"The Unix socket {place.path} of the service is not safe: {fault}. Correct the folder, or choose another "
            "one with c.SchedulerService.socket_dir."
        )


async def _wait(event: asyncio.Event) -> None:
    await event.wait()

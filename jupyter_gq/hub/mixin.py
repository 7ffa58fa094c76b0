"""The mixin that gives any spawner shares of GPUs: check the request, wait, attach the process, give the share back.

Steps of a spawn, in the order of the Hub
-----------------------------------------
1. `clear_state`: the earlier ticket is forgotten.
2. `_run_apply_user_options`: the request is checked; all other options go on to the administrator's own hook.
3. `run_pre_spawn_hook`, outside `start_timeout`: the administrator's hook runs first, then the share is requested and
   waited for. `progress` tells all viewers.
4. `start`: the admitted share is used. Afterwards the process is attached to the ticket.
5. On any failure, on `stop`, and if `poll` finds that the process has ended, the ticket is given back. Giving back is
   only faster: the service frees a share once its process is gone, even if the Hub has ended.

See docs/decisions/0001-the-hub-starts-servers-the-service-grants-shares.md.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

import psutil
from traitlets import Any as AnyTrait
from traitlets import Float, Integer, List, Unicode, default

from jupyter_gq.client.connection.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.environment.variables import add_share_variables
from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.client.models import ProcessReport
from jupyter_gq.client.plain_output import log_own_records_plainly
from jupyter_gq.domain.errors import AdminError, UserError
from jupyter_gq.domain.json_types import JsonObject, JsonValue

from . import options_form
from .admission.admission import Admission, HeldShare, ServerRequest, StartRefused, WaitLimits, attach, give_back
from .admission.credentials import SUBMIT_SCOPES, short_lived_token
from .admission.refusal import make_refusal
from .admission.request import ShareRequest, read_request, unwrap_options
from .admission.status import SpawnStatus, StatusBoard
from .admission.waiting_servers import WaitingServers
from .base import SpawnerMixin
from .clock import monotonic
from .hub_parts import Address, AnySpawner, Form

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
_STATE = "jupyter_gq"
_SLOWEST_RETRY = 5.0


class GPUShareMixin(SpawnerMixin):  # type: ignore[misc]  # jupyterhub has no types
    """The mixin that gives a spawner class shares of GPUs: `class MySpawner(GPUShareMixin, SomeSpawner)`."""

    service_url = Unicode(
        "http://127.0.0.1:8899/services/jupyter-gq/",
        help="URL of the scheduler service with its prefix, for the hub and its servers. "
        "The configuration helper sets it.",
    ).tag(config=True)
    server_service_url = Unicode(
        help="URL of the scheduler service with its prefix, for servers that need another URL than the hub. "
        "Empty: `service_url`."
    ).tag(config=True)
    service_timeout = FiniteFloat(
        10.0, least=0.1, help="Seconds to wait for one answer of the scheduler service while a server starts."
    ).tag(config=True)
    gpu_queue_timeout = Float(
        3600.0,
        help="Longest wait in line in seconds. After that the start is refused with a sentence, and the place in line "
        "is lost. The wait is not part of `start_timeout`. Each waiting server counts for "
        "`JupyterHub.concurrent_spawn_limit`.",
    ).tag(config=True)
    gpu_queue_length = Integer(
        48,
        min=0,
        help="Largest number of servers that wait in line at the same time. A further server that finds no free GPU is "
        "refused with a sentence. Each waiting server occupies one of the `JupyterHub.concurrent_spawn_limit` starts "
        "(64 with Zero to JupyterHub). If all starts are occupied, nobody can start a server, not even without a GPU, "
        "so keep the number well below that limit. 0: any number.",
    ).tag(config=True)
    gpu_queue_poll_interval = FiniteFloat(
        1.0, least=0.01, help="Seconds between two requests to the service while a server waits in line."
    ).tag(config=True)
    kernel_provisioner = Unicode(
        "jupyter-gq",
        help="Kernel provisioner of the servers, which prepares kernels for their share. "
        "Empty: Jupyter's own provisioner, for environments of users without the package jupyter-gq.",
    ).tag(config=True)

    other_user_options = List(
        Unicode(),
        help="Names of options that your own hooks read from `user_options`, beside the options of "
        "`apply_user_options`. Unknown names are refused, so that a misspelt `gpus` starts no server without a GPU. "
        '["*"]: any name.',
    ).tag(config=True)

    # The Hub declares a Dict, and with Hub 5 any other body becomes a failed spawn; so every value is accepted here.
    user_options = AnyTrait(help="Options that the user requested; not trusted, see jupyter_gq.hub.admission.request.")

    #: Sentence on why the last server ended, if its user did not stop it and the spawner knows the reason.
    gpu_ended = ""
    #: Whether servers are pods: then a share of a GPU is complete only with the additions to its pod.
    servers_are_pods = False

    #: All servers of this Hub that wait for a share.
    waiting_servers: ClassVar[WaitingServers] = WaitingServers()

    _share: HeldShare | None = None
    _share_token = ""
    _attaching: "asyncio.Task[None] | None" = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        log_own_records_plainly()  # the Hub's log has names of servers and sentences of the service
        self._board = StatusBoard()
        super().__init__(*args, **kwargs)

    @default("http_timeout")
    def _patient_timeout(self) -> int:
        """Two minutes instead of the Hub's 30 seconds.

        A server that was too slow on a busy machine would end with "Spawn failed" and without a reason on the page.
        """
        return 120

    @default("user_options")
    def _no_options(self) -> JsonObject:
        return {}

    @default("options_form")
    def _options_page(self) -> Callable[[AnySpawner], Awaitable[str]]:
        return options_form.render_page

    @default("options_from_form")
    def _options_reader(self) -> Callable[[Form], JsonObject]:
        return options_form.read_form

    # --- attributes for templates -----------------------------------------------------------------------------------

    @property
    def gpu_status(self) -> SpawnStatus:
        """The present status of the server's start: step, share, sentence and place in line."""
        return self._board.now

    @property
    def gpu_waited(self) -> int | None:
        """The whole seconds that the server has waited in line; None if it does not wait."""
        since = self._board.now.since
        return None if since is None else int(monotonic() - since)

    # --- the steps of a spawn ---------------------------------------------------------------------------------------

    def other_options(self) -> Collection[str] | None:
        """Return the keys of `user_options` that other code handles; None if other code handles all keys but `gpus`.

        A subclass over a spawner with its own options adds their keys.
        """
        handler = self.apply_user_options
        if "*" in self.other_user_options or (handler and not isinstance(handler, dict)):
            return None
        return {*self.other_user_options, *(handler or ())}

    async def require_share_request(self) -> ShareRequest:
        """Return the share that the user requests; raise a refusal if the options are invalid."""
        try:
            return await self.read_request()
        except (UserError, AdminError) as error:
            raise make_refusal(self, str(error), "gpu_bad_request", 400) from error

    async def read_request(self) -> ShareRequest:
        """Return the share that the user requests; raise `UserError` if the options are invalid.

        A subclass over a spawner whose own options name GPUs overrides this method.
        """
        return read_request(self.user_options, also_known=self.other_options())

    async def _run_apply_user_options(self, user_options: JsonValue) -> None:
        """Check the requested share, unwrap the options, and pass them on to the administrator's hook.

        A hook that is a dict gets only the options that it names. Raises a refusal if the options are invalid.
        """
        await self.require_share_request()
        options = self.user_options = unwrap_options(user_options)  # hooks and `start` see the unwrapped options
        if not callable(self.apply_user_options):  # a callable gets all options; for a dict the Hub would warn
            options = {key: value for key, value in options.items() if key in (self.apply_user_options or ())}
        await super()._run_apply_user_options(options)

    async def run_pre_spawn_hook(self) -> None:
        """Run the administrator's hook, then wait until the share is reserved; raise a refusal if it is not granted."""
        await await_if_needed(super().run_pre_spawn_hook())
        request = await self.require_share_request()
        with self._open_service(self.api_token) as service:
            admission = Admission(
                service=service,
                server_request=ServerRequest(server=self.name, request=request, as_pod=self.servers_are_pods),
                board=self._board,
                limits=WaitLimits(
                    poll_interval=self.gpu_queue_poll_interval,
                    longest_wait=self.gpu_queue_timeout,
                    most_waiting=self.gpu_queue_length,
                ),
                waiting_servers=self.waiting_servers,
            )
            try:
                self._share = await admission.obtain()
            except StartRefused as error:
                raise self._make_refusal(error, request.gpus) from error
        self._share_token = self.api_token

    async def start(self) -> Address:
        """Start the server with the admitted share, attach its process to the ticket, and return its address."""
        self._show_starting()
        address = await self._start_server()
        self._store_state(address)
        await self._attach_process()
        return address  # after a failure the Hub calls poll and stop, which give the share back

    async def _start_server(self) -> Address:
        """Call the spawner's own start and return the address.

        A subclass overrides this if the place of an admitted share may be lost.
        """
        address: Address = await await_if_needed(super().start())
        return address

    def _store_state(self, address: Address) -> None:
        """Store the started server and its address in the Hub's database.

        The Hub does the same when `start` has returned. A Hub that was killed before, while it reported the process,
        would leave a server that the next Hub neither shows nor stops.
        """
        if not isinstance(address, str):  # a spawner that returns a URL finds it again by itself
            self.server.ip, self.server.port = address
        self.orm_spawner.state = self.get_state()
        self.user.db.commit()

    def _show_starting(self) -> None:
        """Show the viewers that the server starts now."""
        gpus, note = (self._share.gpus, self._share.note) if self._share else ("0", "")
        sentence = f"Starting the server with {gpus} GPU." if gpus != "0" else f"Starting without a GPU. {note}".strip()
        self._board.show(SpawnStatus(step="starting", gpus=gpus, sentence=sentence))

    async def stop(self, now: bool = False) -> None:
        """Stop the server, then give its share back, even if the server could not be stopped."""
        try:
            await await_if_needed(super().stop(now=now))
        finally:
            await self._give_share_back()

    async def poll(self) -> int | None:
        """Return the server's exit status, None while it runs; give the share of an ended server back."""
        share, token = self._share, self._share_token  # the spawner clears its state when it finds the end
        status: int | None = await await_if_needed(super().poll())
        if status is not None and share is not None:
            self._share, self._share_token = share, token
            await self._give_share_back()
        return status

    async def progress(self) -> AsyncIterator[JsonObject]:
        """Yield the events of the start from the present moment on, until the server has started or the start ends.

        Each viewer gets its own stream.
        """
        while True:
            async with aclosing(self._board.watch()) as statuses:
                async for status in statuses:
                    yield status.event
                    if status.step in ("starting", "ended"):
                        break
            if self._board.now.step == "starting":
                async with (
                    aclosing(super().progress()) as events,
                    aclosing(self._board.relay_during("starting", events)) as shown,
                ):
                    async for event in shown:
                        yield event
            if self._board.now.step in ("starting", "ended", "idle"):
                break  # otherwise the place was lost, and the server waits in line again

    # --- environment and state --------------------------------------------------------------------------------------

    def get_env(self) -> dict[str, str]:
        """Return the spawner's environment with the service's address, the server's name and the share's variables.

        Variables of these names that the administrator has set are overridden, except smaller limits of GPU memory.
        """
        environment: dict[str, str] = super().get_env()
        environment["JUPYTER_GQ_URL"] = self.server_service_url or self.service_url
        environment["JUPYTER_GQ_SERVER"] = self.name
        if self.kernel_provisioner:
            environment["JUPYTER_DEFAULT_PROVISIONER_NAME"] = self.kernel_provisioner
        if self._share is not None:
            environment["JUPYTER_GQ_TICKET"] = self._share.ticket
            environment = add_share_variables(environment, self._share.environment)
        return environment

    def get_state(self) -> JsonObject:
        """Return the spawner's state with the ticket and its amount of GPUs, if there is a ticket."""
        state: JsonObject = super().get_state()
        if self._share is not None and self._share.ticket:
            state[_STATE] = {"ticket": self._share.ticket, "gpus": self._share.gpus}
        return state

    def load_state(self, state: JsonObject) -> None:
        """Restore the ticket and its amount of GPUs after a restart of the Hub, without the share's variables."""
        super().load_state(state)
        saved = state.get(_STATE)
        if saved:
            self._share = HeldShare(ticket=saved["ticket"], gpus=saved["gpus"], environment={})

    def clear_state(self) -> None:
        """Forget the ticket and the status of the start; the Hub calls this before a start and after the end."""
        super().clear_state()
        self._share, self._share_token = None, ""
        self._board.show(SpawnStatus())

    # --- the service ------------------------------------------------------------------------------------------------

    def _make_refusal(self, error: StartRefused, gpus: str) -> Exception:
        """Show the sentence of the refusal to all viewers; return the Hub's exception for the caller to raise."""
        self._board.show(SpawnStatus(step="ended", gpus=gpus, sentence=error.sentence))
        return make_refusal(self, error.sentence, error.reason, error.status)

    @contextmanager
    def _open_service(self, token: str) -> "Iterator[ServiceClient]":
        """Provide a client of the service that uses this token; it is closed at the end of the block."""
        client = ServiceClient(self.service_url, token, timeout=self.service_timeout)
        try:
            yield client
        finally:
            client.close()

    async def _attach_process(self) -> None:
        """Report the process of the server to the service, or later in a task if the service does not answer.

        If the service refuses the process, stop the server and raise a refusal. A server without a ticket or a process
        of this machine is not reported.
        """
        share, pid = self._share, getattr(self, "pid", 0)
        if share is None or not share.ticket or not pid:
            return
        try:
            report = ProcessReport(pid=pid, started=psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return  # the process has ended already; the Hub finds that out by itself
        try:
            with self._open_service(self._share_token) as service:
                await attach(service, share.ticket, report)
        except ServiceUnavailable as error:
            self.log.warning("The process of %s will be reported to the GPU service later: %s", self._log_name, error)
            self._attaching = asyncio.create_task(self._attach_later(share.ticket, report, self._share_token))
        except StartRefused as error:
            await await_if_needed(super().stop(now=True))
            raise make_refusal(self, error.sentence, error.reason, error.status) from error

    async def _attach_later(self, ticket: str, report: ProcessReport, token: str) -> None:
        """Report the process again and again until the service accepts or refuses it, or the process has ended.

        A refusal is only logged.
        """
        pause = 0.2
        while psutil.pid_exists(report.pid):
            await asyncio.sleep(pause)
            try:
                with self._open_service(token) as service:
                    await attach(service, ticket, report)
                break
            except ServiceUnavailable:
                pause = min(2 * pause, _SLOWEST_RETRY)
            except StartRefused as error:
                self.log.warning("The GPU service refuses the process of %s: %s", self._log_name, error.sentence)
                break

    async def _give_share_back(self) -> None:
        """Forget the share and close its ticket at the service, if there is one; errors of the service are logged.

        A report of the process that is still being tried is cancelled.
        """
        share, token = self._share, self._share_token
        self._share, self._share_token = None, ""
        if self._attaching is not None:
            self._attaching.cancel()
            self._attaching = None
        if share is None or not share.ticket:
            return
        if token:
            with self._open_service(token) as service:
                await give_back(service, share.ticket)
            return
        try:  # the Hub was restarted meanwhile; it keeps only the hash of the server's token
            with short_lived_token(self, SUBMIT_SCOPES) as short, self._open_service(short) as service:
                await give_back(service, share.ticket)
        except ValueError as error:
            self.log.warning("Ticket %s could not be given back (its process is gone): %s", share.ticket, error)


async def await_if_needed(result: Awaitable[T] | T) -> T:
    """Return `result`, awaited if it is a coroutine or a future: the Hub allows plain and asynchronous methods."""
    if asyncio.iscoroutine(result) or asyncio.isfuture(result):
        awaited: T = await result
        return awaited
    return cast(T, result)

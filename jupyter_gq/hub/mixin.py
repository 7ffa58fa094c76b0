"""Gives any spawner a share of a GPU: checks the request, waits in line, attaches the process, gives back.

How it fits into a spawn (the order is the Hub's)
-------------------------------------------------
1. `clear_state`: an earlier ticket is forgotten.
2. `_run_apply_user_options`: the request is checked; what is not ours goes on to the administrator's own hook.
3. `run_pre_spawn_hook`, outside `start_timeout`: the administrator's hook first, then the share is asked for and
   waited for. `progress` tells everybody who looks.
4. `start`: only uses what was admitted. Afterwards the process is attached to the ticket.
5. On any failure, on `stop`, and when `poll` finds the process gone, the ticket is given back. That is a courtesy:
   the service frees a share when its process is gone, whether or not the Hub lives to say so.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import psutil
from traitlets import Any as AnyTrait
from traitlets import Float, Integer, List, Unicode, default

from jupyter_gq.client.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.models import ProcessReport
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject

from . import options_form
from .admission.admission import Admission, Patience, Refused, Share, Wish, attach, give_back
from .admission.credentials import SUBMIT, short_token
from .admission.refusal import refuse
from .admission.request import ShareRequest, read_request, unwrap
from .admission.status import SpawnStatus, StatusBoard
from .admission.waiting_servers import Line
from .base import OverSpawner

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE = "jupyter_gq"
_SLOWEST_RETRY = 5.0


class GPUShareMixin(OverSpawner):  # type: ignore[misc]  # jupyterhub has no types
    """Put it before a spawner class: `class MySpawner(GPUShareMixin, SomeSpawner)`."""

    service_url = Unicode(
        "http://127.0.0.1:8899/services/jupyter-gq/",
        help="Address of the scheduler service with its prefix, as the hub and the servers reach it. "
        "The configuration helper sets it.",
    ).tag(config=True)
    server_service_url = Unicode(
        help="Address of the scheduler service with its prefix, as the servers reach it, where that is another one "
        "than the hub's. Empty: `service_url`."
    ).tag(config=True)
    service_timeout = Float(
        10.0, help="Seconds to wait for one answer of the scheduler service while a server starts."
    ).tag(config=True)
    gpu_queue_timeout = Float(
        3600.0,
        help="The longest wait in line, in seconds. Then the start is refused with a sentence, and nothing is kept. "
        "It is not part of `start_timeout`. Each waiting server counts for `JupyterHub.concurrent_spawn_limit`.",
    ).tag(config=True)
    gpu_queue_length = Integer(
        48,
        min=0,
        help="Servers that may wait in line at one time; one more that finds no free GPU is refused with a sentence. "
        "Each holds one of `JupyterHub.concurrent_spawn_limit` (64 with Zero to JupyterHub), and when all of those are "
        "held nobody can start a server, not even without a GPU: keep it well below. 0: any number.",
    ).tag(config=True)
    gpu_queue_poll_interval = Float(
        1.0, help="Seconds between two questions to the service while a server waits in line."
    ).tag(config=True)
    kernel_provisioner = Unicode(
        "jupyter-gq",
        help="Kernel provisioner of the servers, which tells training jobs and notebooks apart. "
        "Empty: leave it to Jupyter, for environments of users without the package jupyter-gq.",
    ).tag(config=True)

    other_user_options = List(
        Unicode(),
        help="Names of options that your own hooks read from `user_options`, beside those of `apply_user_options`. "
        'Others are refused, so that a misspelt `gpus` starts no server without one. ["*"]: any name.',
    ).tag(config=True)

    # The Hub declares a Dict, and a body that is none becomes a failed spawn (Hub 5): anything may arrive here.
    user_options = AnyTrait(help="What the user asked for; not trusted, see jupyter_gq.hub.request.")

    #: Why the last server ended, when its user did not end it and the spawner knows; one sentence.
    gpu_ended = ""
    #: A server is a pod: a share of a GPU is complete with what its pod must carry.
    servers_are_pods = False

    #: All servers of this Hub that wait.
    gpu_line: ClassVar[Line] = Line()

    _share: Share | None = None
    _share_token = ""
    _attaching: "asyncio.Task[None] | None" = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._board = StatusBoard()
        super().__init__(*args, **kwargs)

    @default("user_options")
    def _no_options(self) -> JsonObject:
        return {}

    @default("options_form")
    def _options_page(self) -> Any:
        return options_form.page

    @default("options_from_form")
    def _options_reader(self) -> Any:
        return options_form.read

    # --- what templates may read ------------------------------------------------------------------------------------

    @property
    def gpu_status(self) -> SpawnStatus:
        """What the start is doing now."""
        return self._board.now

    @property
    def gpu_waited(self) -> int | None:
        """Seconds in line so far; None outside of it."""
        since = self._board.now.since
        return None if since is None else int(asyncio.get_running_loop().time() - since)

    # --- the steps of a spawn ---------------------------------------------------------------------------------------

    def other_options(self) -> Collection[str] | None:
        """Keys of `user_options` that something else handles; None: any key but ours.

        A subclass over a spawner with options of its own adds them.
        """
        handler = self.apply_user_options
        if "*" in self.other_user_options or (handler and not isinstance(handler, dict)):
            return None
        return {*self.other_user_options, *(handler or ())}

    async def share_request(self) -> ShareRequest:
        """What the user asks for; raise the refusal when it is nothing that can be asked for."""
        try:
            return await self.read_request()
        except UserError as error:
            raise refuse(self, str(error), "gpu_bad_request", 400) from error

    async def read_request(self) -> ShareRequest:
        """What the user asks for; raise `UserError` when it is nothing. A subclass over a spawner whose own options
        say something of GPUs replaces it."""
        return read_request(self.user_options, also_known=self.other_options())

    async def _run_apply_user_options(self, user_options: Any) -> None:
        await self.share_request()
        options = self.user_options = unwrap(user_options)  # hooks and `start` see them unwrapped
        if not callable(self.apply_user_options):  # which may want to see all; the Hub would warn of the rest
            options = {key: value for key, value in options.items() if key in (self.apply_user_options or ())}
        await super()._run_apply_user_options(options)

    async def run_pre_spawn_hook(self) -> None:
        """The administrator's hook, then the share: returns when it is reserved."""
        await maybe(super().run_pre_spawn_hook())
        request = await self.share_request()
        with self._service(self.api_token) as service:
            admission = Admission(
                service=service,
                wish=Wish(server=self.name, request=request, as_pod=self.servers_are_pods),
                board=self._board,
                patience=Patience(
                    period=self.gpu_queue_poll_interval,
                    longest_wait=self.gpu_queue_timeout,
                    most_waiting=self.gpu_queue_length,
                ),
                line=self.gpu_line,
            )
            try:
                self._share = await admission.obtain()
            except Refused as error:
                raise self._refusal(error, request.gpus) from error
        self._share_token = self.api_token

    async def start(self) -> Any:
        """Start the server with what was admitted, and attach its process to the ticket."""
        self._show_starting()
        where = await self._start_server()
        await self._attach_process()
        return where  # after a failure the Hub calls poll and stop, which give the share back

    async def _start_server(self) -> Any:
        """The spawner's own start. A subclass overrides it where the place of a share may not be had after all."""
        return await maybe(super().start())

    def _show_starting(self) -> None:
        gpus, note = (self._share.gpus, self._share.note) if self._share else ("0", "")
        sentence = f"Starting the server with {gpus} GPU." if gpus != "0" else f"Starting without a GPU. {note}".strip()
        self._board.show(SpawnStatus(step="starting", gpus=gpus, sentence=sentence))

    async def stop(self, now: bool = False) -> None:
        """Stop the server, then give its share back."""
        try:
            await maybe(super().stop(now=now))
        finally:
            await self._give_share_back()

    async def poll(self) -> int | None:
        """The spawner's answer; an ended server gives its share back."""
        share, token = self._share, self._share_token  # finding the end clears the state
        status: int | None = await maybe(super().poll())
        if status is not None and share is not None:
            self._share, self._share_token = share, token
            await self._give_share_back()
        return status

    async def progress(self) -> AsyncIterator[JsonObject]:
        """What happens, from the present moment on; each viewer gets all of it."""
        while True:
            async with aclosing(self._board.watch()) as statuses:
                async for status in statuses:
                    yield status.event
                    if status.step in ("starting", "ended"):
                        break
            if self._board.now.step == "starting":
                async with (
                    aclosing(super().progress()) as events,
                    aclosing(self._board.during("starting", events)) as shown,
                ):
                    async for event in shown:
                        yield event
            if self._board.now.step in ("starting", "ended", "idle"):
                break  # else its place was not to be had, and it is in line again

    # --- environment and state --------------------------------------------------------------------------------------

    def get_env(self) -> dict[str, str]:
        """The spawner's environment with the share; ours wins over what an administrator set for everybody."""
        environment: dict[str, str] = super().get_env()
        environment["JUPYTER_GQ_URL"] = self.server_service_url or self.service_url
        environment["JUPYTER_GQ_SERVER"] = self.name
        if self.kernel_provisioner:
            environment["JUPYTER_DEFAULT_PROVISIONER_NAME"] = self.kernel_provisioner
        if self._share is not None:
            environment["JUPYTER_GQ_TICKET"] = self._share.ticket
            environment.update(self._share.environment)
        return environment

    def get_state(self) -> JsonObject:
        """The spawner's state with the ticket."""
        state: JsonObject = super().get_state()
        if self._share is not None and self._share.ticket:
            state[_STATE] = {"ticket": self._share.ticket, "gpus": self._share.gpus}
        return state

    def load_state(self, state: JsonObject) -> None:
        """Take the ticket up again after a restart of the Hub."""
        super().load_state(state)
        saved = state.get(_STATE)
        if saved:
            self._share = Share(ticket=saved["ticket"], gpus=saved["gpus"], environment={})

    def clear_state(self) -> None:
        """Forget the ticket: before a start, and after the end."""
        super().clear_state()
        self._share, self._share_token = None, ""
        self._board.show(SpawnStatus())

    # --- the service ------------------------------------------------------------------------------------------------

    def _refusal(self, error: Refused, gpus: str) -> Exception:
        """The exception to raise; everybody who watches sees its sentence."""
        self._board.show(SpawnStatus(step="ended", gpus=gpus, sentence=error.sentence))
        return refuse(self, error.sentence, error.reason, error.status)

    @contextmanager
    def _service(self, token: str) -> "Iterator[ServiceClient]":
        client = ServiceClient(self.service_url, token, timeout=self.service_timeout)
        try:
            yield client
        finally:
            client.close()

    async def _attach_process(self) -> None:
        share, pid = self._share, getattr(self, "pid", 0)
        if share is None or not share.ticket or not pid:
            return
        try:
            report = ProcessReport(pid=pid, started=psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return  # it ended at once: the Hub finds out by itself
        try:
            with self._service(self._share_token) as service:
                await attach(service, share.ticket, report)
        except ServiceUnavailable as error:
            self.log.warning("The process of %s is reported to the GPU service later: %s", self._log_name, error)
            self._attaching = asyncio.create_task(self._attach_later(share.ticket, report, self._share_token))
        except Refused as error:
            await maybe(super().stop(now=True))
            raise refuse(self, error.sentence, error.reason, error.status) from error

    async def _attach_later(self, ticket: str, report: ProcessReport, token: str) -> None:
        pause = 0.2
        while psutil.pid_exists(report.pid):
            await asyncio.sleep(pause)
            try:
                with self._service(token) as service:
                    await attach(service, ticket, report)
                break
            except ServiceUnavailable:
                pause = min(2 * pause, _SLOWEST_RETRY)
            except Refused as error:
                self.log.warning("The GPU service does not accept %s: %s", self._log_name, error.sentence)
                break

    async def _give_share_back(self) -> None:
        share, token = self._share, self._share_token
        self._share, self._share_token = None, ""
        if self._attaching is not None:
            self._attaching.cancel()
            self._attaching = None
        if share is None or not share.ticket:
            return
        if token:
            with self._service(token) as service:
                await give_back(service, share.ticket)
            return
        try:  # the Hub was restarted since: it keeps only the hash of the server's token
            with short_token(self, SUBMIT) as short, self._service(short) as service:
                await give_back(service, share.ticket)
        except ValueError as error:
            self.log.warning("Could not give ticket %s back (its process is gone): %s", share.ticket, error)


async def maybe(result: Any) -> Any:
    """The result of a method that may be plain or a coroutine, as the Hub allows both."""
    return await result if asyncio.iscoroutine(result) or asyncio.isfuture(result) else result

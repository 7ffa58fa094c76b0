"""The Jupyter Server extension: its settings, its routes, and its background tasks."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import TYPE_CHECKING, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float, Int, List, Unicode

from jupyter_gq.client.files.frozen_files import MAX_FILE_MIB
from jupyter_gq.client.plain_output import log_own_records_plainly

from .event_schemas import SERVICE_FILE
from .handlers.kernel_socket import KernelSocket
from .handlers.routes import ROUTES
from .hub_environment import NOT_ON_A_HUB, SENT_BY_DEFAULT, HubEnvironment, read_hub_environment
from .kernels.share import ShareNotice
from .kernels.watch import KernelWatch
from .refusal import RefusedRequest

if TYPE_CHECKING:
    from .jupyter_parts import ServerApp
    from .service_connection import ServiceConnection


_MIB = 1024 * 1024


class JupyterGQ(ExtensionApp):
    """The extension of users' Jupyter servers. All settings but `port` stand in `jupyter_server_config.py`.

    `port` stands in the hub's file.

    The service decides and stores. The extension keeps only what a new server can do without.
    """

    name = "jupyter_gq"

    environment = List(
        Unicode(),
        default_value=list(SENT_BY_DEFAULT),
        help="""Names of the environment variables of this server that are sent with a job; `*` stands for any text.

        The user can add others in the dialog. Variables of the Hub and of Jupyter are never sent, nor are secrets,
        even if they are listed: names with words such as TOKEN, SECRET, PASSWORD, CREDENTIAL or KEY, and addresses with
        a password in them.
        """,
    ).tag(config=True)

    activity_interval = Float(
        5.0, min=1.0, help="Seconds between two reports of the kernels' activity to the scheduler service."
    ).tag(config=True)

    busy_limit = Float(
        12 * 3600.0,
        min=0.0,
        help="""Longest time in seconds for which one running cell keeps the server active for the Hub's culler.

        After this time the scheduler service still learns that the kernel is busy.
        """,
    ).tag(config=True)

    share_wait = Float(
        900.0,
        min=0.0,
        help="""Longest time in seconds that a cell waits for the GPU of its notebook while the GPU is lent.

        After this time the cell fails with GPUWaitTimeout and is not run.
        """,
    ).tag(config=True)

    max_file_mib = Float(
        MAX_FILE_MIB,
        min=0.001,
        help="""Largest file of the notebook's folder, in MiB, that goes along with a job; larger data stays.

        All files of one job together have the limit `c.TrainingQueues.max_job_files_mib` of the service.
        """,
    ).tag(config=True)

    max_variables_mib = Float(
        500.0,
        min=0.001,
        help="""Most MiB of the variables of a kernel, pickled, that go along with one job; what does not fit stays.

        The limit `c.TrainingQueues.max_job_files_mib` of the service holds for files and variables together.
        """,
    ).tag(config=True)

    port = Int(
        0,
        min=0,
        max=65535,
        help="""The port of the scheduler service on one machine, in the hub's file before `configure(c)`.

        0: the first start chooses a free port from 20000 to 31999, and records it in the file `port` of the state
        folder. The port never changes by itself. Servers and jobs use a Unix socket, and no port.
        """,
    ).tag(config=True)

    hub_environment = HubEnvironment()
    #: None if there is no service.
    watch: KernelWatch | None = None
    #: Through which kernels fetch the results of jobs and ask for their share; None if there is no service.
    kernel_socket: KernelSocket | None = None
    #: What kernels are told about the share; None if there is no service.
    share: ShareNotice | None = None
    _connecting: asyncio.Task[ServiceConnection] | None = None

    def initialize_settings(self) -> None:
        """Read the Hub's variables and register the schema of our events; on a Hub, also prepare the kernel watch."""
        log_own_records_plainly()
        self.hub_environment = read_hub_environment(os.environ)
        app = cast("ServerApp", self.serverapp)
        app.event_logger.register_event_schema(SERVICE_FILE)
        if self.hub_environment.on_hub:
            self.watch = KernelWatch(app.kernel_manager, app.event_logger, self.log)
            self.kernel_socket = KernelSocket(self.connect)
            self.share = ShareNotice(
                self.kernel_socket.notice_file, server=self.hub_environment.server, timeout=self.share_wait
            )

    def initialize_handlers(self) -> None:
        """Add the routes of the extension, below the server's base URL."""
        self.handlers.extend(ROUTES)

    async def connect(self) -> ServiceConnection:
        """Return the connection to the service, made by the first call; raise `RefusedRequest` if there is none."""
        if self.watch is None or self.share is None:
            raise RefusedRequest("service_unavailable", NOT_ON_A_HUB, status=503)
        if self._connecting is None:
            making = self._make_connection(self.watch, self.share)
            self._connecting = asyncio.create_task(making, name="jupyter-gq connection")
        return await asyncio.shield(self._connecting)

    async def _make_connection(self, watch: KernelWatch, share: ShareNotice) -> ServiceConnection:
        """Return a new connection to the service, importing its module in a thread because that is slow."""
        module = await asyncio.to_thread(importlib.import_module, "jupyter_gq.lab.service_connection")
        connection: ServiceConnection = module.ServiceConnection(
            self.serverapp,
            self.hub_environment,
            watch,
            share,
            self.environment,
            module.Limits(file=int(self.max_file_mib * _MIB), variables=int(self.max_variables_mib * _MIB)),
        )
        connection.reporter.interval, connection.reporter.busy_limit = self.activity_interval, self.busy_limit
        return connection

    async def _start_jupyter_server_extension(self, serverapp: object) -> None:
        """Start to watch kernels, relay events and report activity; do nothing without a service.

        jupyter_server calls this once it answers.
        """
        if self.kernel_socket is not None:
            self.kernel_socket.start()
        if self.watch is not None:
            self.watch.start()
            (await self.connect()).start()

    async def stop_extension(self) -> None:
        """Close the connection to the service and the kernel watch; jupyter_server calls this when it stops."""
        if self._connecting is not None:
            (connection,) = await asyncio.gather(self._connecting, return_exceptions=True)
            if not isinstance(connection, BaseException):
                await connection.close()
        if self.kernel_socket is not None:
            self.kernel_socket.close()
        if self.watch is not None:
            self.watch.close()

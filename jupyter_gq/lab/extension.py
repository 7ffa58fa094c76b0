"""The Jupyter Server extension: its settings, its routes, and what runs beside them for as long as the server does."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import TYPE_CHECKING, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float, List, Unicode

from .event_schemas import SERVICE_FILE
from .handlers import ROUTES
from .refusal import RefusedRequest
from .surroundings import NOT_ON_A_HUB, Surroundings, read_surroundings
from .watch import KernelWatch

if TYPE_CHECKING:
    from .desk import Desk
    from .jupyter_parts import ServerApp


class JupyterGQ(ExtensionApp):
    """The extension of users' Jupyter servers. Its settings stand in `jupyter_server_config.py`, not with the hub's.

    It judges nothing and stores nothing: that is the service's.
    """

    name = "jupyter_gq"

    environment = List(
        Unicode(),
        default_value=[
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "LANG",
            "LANGUAGE",
            "LC_*",
            "TZ",
            "TMPDIR",
            "VIRTUAL_ENV",
            "CONDA_*",
            "PYTHONPATH",
            "LD_LIBRARY_PATH",
            "MPLBACKEND",
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "CUDA_HOME",
            "CUDA_PATH",
            "HF_HOME",
            "TORCH_HOME",
            "R_LIBS*",
            "JULIA_*",
        ],
        help="""Names of the variables of this server that go along with a job; `*` stands for any text.

        Variables of the Hub and of Jupyter, and those whose name contains TOKEN, SECRET, PASSWORD, PASSWD or COOKIE
        never go along, even if they are listed.
        """,
    ).tag(config=True)

    activity_interval = Float(
        5.0, min=1.0, help="Seconds between two reports of the kernels' activity to the scheduler service."
    ).tag(config=True)

    busy_limit = Float(
        12 * 3600.0,
        min=0.0,
        help="""Seconds for which a cell that runs without a break keeps the whole server active for the Hub's culler.

        The scheduler service is told that the kernel is busy for as long as it is.
        """,
    ).tag(config=True)

    surroundings = Surroundings()
    #: None where there is no service.
    watch: KernelWatch | None = None
    _desk: asyncio.Task[Desk] | None = None

    def initialize_settings(self) -> None:
        """Look around once, and register what the browser can listen to."""
        self.surroundings = read_surroundings(os.environ)
        app = cast("ServerApp", self.serverapp)
        app.event_logger.register_event_schema(SERVICE_FILE)
        if self.surroundings.on_hub:
            self.watch = KernelWatch(app.kernel_manager, app.event_logger, self.log)

    def initialize_handlers(self) -> None:
        """The routes, below the server's base URL."""
        self.handlers.extend(ROUTES)

    async def desk(self) -> Desk:
        """What talks to the service. Raises `RefusedRequest` where there is none."""
        if self.watch is None:
            raise RefusedRequest("service_unavailable", NOT_ON_A_HUB, status=503)
        if self._desk is None:
            self._desk = asyncio.create_task(self._make_desk(self.watch), name="jupyter-gq desk")
        return await asyncio.shield(self._desk)

    async def _make_desk(self, watch: KernelWatch) -> Desk:
        """Import it beside the event loop: the user's server must not start later because of us."""
        module = await asyncio.to_thread(importlib.import_module, "jupyter_gq.lab.desk")
        desk: Desk = module.Desk(self.serverapp, self.surroundings, watch, self.environment)
        desk.reporter.interval, desk.reporter.busy_limit = self.activity_interval, self.busy_limit
        return desk

    async def _start_jupyter_server_extension(self, serverapp: object) -> None:
        """Called once the server answers."""
        if self.watch is not None:
            self.watch.start()
            (await self.desk()).start()

    async def stop_extension(self) -> None:
        """Called when the server stops."""
        if self._desk is not None:
            (desk,) = await asyncio.gather(self._desk, return_exceptions=True)
            if not isinstance(desk, BaseException):
                await desk.close()
        if self.watch is not None:
            self.watch.close()

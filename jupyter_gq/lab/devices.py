"""Waits until somebody has looked at the GPUs that this server's container can open, before its first kernel starts.

Rules
-----
1. Only a server in a pod with GPUs waits; the service told it so by a variable.
2. What a container can open does not change: once a kernel of this server may begin, all may.
3. A service that does not answer has not looked.
"""

from __future__ import annotations

import asyncio
import importlib
from logging import Logger
from textwrap import fill
from typing import TYPE_CHECKING

from jupyter_gq.client.devices import ANSWER_TIMEOUT, NAMED, CheckTimeouts, DeviceCheck, StartDecision
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.errors import MachineError

from .clock import monotonic
from .surroundings import Surroundings

if TYPE_CHECKING:
    from jupyter_gq.client.http import ServiceClient

#: Seconds until a service that gave no answer is asked again.
PAUSE = 1.0
#: JupyterLab shows why a kernel did not start with the line breaks that are there, and cuts off what is longer.
_WIDTH = 90


class KernelHeldBack(MachineError):
    """No kernel may begin here; the text says why, to whoever wanted one."""

    def __init__(self, sentence: str) -> None:
        super().__init__(fill(sentence, _WIDTH))


class Gate:
    """Held shut until the devices were looked at; one for each server."""

    def __init__(self) -> None:
        self._open = False

    async def passed(self, here: Surroundings, patience: CheckTimeouts, log: Logger) -> None:
        """Return when a kernel may begin; raise `KernelHeldBack` when none may."""
        if self._open or not (here.on_hub and here.ticket and here.devices):
            return
        # Imported beside the event loop: its models take a while.
        module = await asyncio.to_thread(importlib.import_module, "jupyter_gq.client.http")
        service = module.ServiceClient(here.url, here.token)
        try:
            await _await_look(service, here, patience, log)
        finally:
            service.close()
        self._open = True


async def _await_look(service: ServiceClient, here: Surroundings, patience: CheckTimeouts, log: Logger) -> None:
    began, told = monotonic(), ""
    required = here.devices == NAMED
    while True:
        asked = monotonic()
        check = await _ask(service, here, min(patience.seconds_left(asked - began, required=required), ANSWER_TIMEOUT))
        if check is None:
            log.info("the GPU scheduler does not know this server's ticket, and so not which GPUs it can open")
            return
        required = check.required
        match patience.decide(check, monotonic() - began):
            case StartDecision.START:
                return
            case StartDecision.START_UNCHECKED:
                log.warning("kernels begin without a look at this server's GPUs: %s", check.sentence)
                return
            case StartDecision.REFUSE:
                raise KernelHeldBack(check.sentence)
            case StartDecision.GIVE_UP:
                raise KernelHeldBack(
                    "The GPUs of this server must be checked before a kernel starts, and nobody checked them within "
                    f"{patience.longest:.0f} s: {check.sentence} Start the kernel again in a moment; if that does not "
                    "help, tell your administrator."
                )
        if check.sentence != told:
            log.info("a kernel waits until this server's GPUs were looked at: %s", check.sentence)
            told = check.sentence
        # An answer that came at once is asked for again a little later.
        await asyncio.sleep(max(0.0, asked + PAUSE - monotonic()))


async def _ask(service: ServiceClient, here: Surroundings, wait: float) -> DeviceCheck | None:
    """What the service knows within `wait` seconds; None when it knows nothing of this server."""
    try:
        seen = await service.server_devices(here.ticket, wait)
    except ServiceError as error:
        if error.status == 404:
            return None
        return DeviceCheck(sight="UNWATCHED", required=here.devices == NAMED, sentence=error.problem.message)
    return DeviceCheck(sight=seen.sight, required=seen.required, sentence=seen.sentence)

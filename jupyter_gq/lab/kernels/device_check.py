"""The wait for the check of the GPUs that this server's container can open, before its first kernel starts.

Rules
-----
- Pods only: only a server in a pod with GPUs waits; a variable of the service says so.
- Once is enough: the devices that a container can open do not change. Once a kernel of this server may start, all may.
- No answer, no check: a service that does not answer counts as one that has not checked the devices.

See docs/decisions/0035-check-visible-devices-before-a-share-is-used.md.
"""

from __future__ import annotations

import asyncio
import importlib
from logging import Logger
from textwrap import fill
from typing import TYPE_CHECKING

from jupyter_gq.client.pods.device_check import ANSWER_TIMEOUT, NAMED, CheckTimeouts, DeviceCheckResult, StartDecision
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.errors import MachineError
from jupyter_gq.lab.clock import monotonic
from jupyter_gq.lab.hub_environment import HubEnvironment

if TYPE_CHECKING:
    from jupyter_gq.client.connection.http import ServiceClient

#: Seconds between two requests to the service.
PAUSE = 1.0
#: Width of a line: JupyterLab shows the reason of a failed start with its line breaks, and cuts longer lines off.
_WIDTH = 90


class KernelRefused(MachineError):
    """A refusal to start a kernel on this server; the text is a sentence for its user, in lines for JupyterLab."""

    has_lines = True

    def __init__(self, sentence: str) -> None:
        super().__init__(fill(sentence, _WIDTH))


class DeviceGate:
    """The gate of a server's kernels: closed until its devices were checked, or need not be; then open for ever."""

    def __init__(self) -> None:
        self._open = False

    async def wait_until_open(self, here: HubEnvironment, timeouts: CheckTimeouts, log: Logger) -> None:
        """Wait until a kernel of this server may start; raise `KernelRefused` if none may.

        Returns at once if an earlier kernel was let through, or if the server is no pod with GPUs.
        """
        if self._open or not (here.on_hub and here.ticket and here.devices):
            return
        # Imported in a thread: its models load slowly, and the event loop must not wait.
        module = await asyncio.to_thread(importlib.import_module, "jupyter_gq.client.connection.http")
        service = module.ServiceClient(here.url, here.token)
        try:
            await _await_check(service, here, timeouts, log)
        finally:
            service.close()
        self._open = True


async def _await_check(service: ServiceClient, here: HubEnvironment, timeouts: CheckTimeouts, log: Logger) -> None:
    """Ask the service about the device check until a kernel may start; raise `KernelRefused` if none may.

    The timeouts decide, once the wait is too long, whether the kernel starts unchecked or is refused. If the service
    does not know the server's ticket, the kernel starts unchecked at once.
    """
    began, told = monotonic(), ""
    required = here.devices == NAMED
    while True:
        asked = monotonic()
        check = await _ask(service, here, min(timeouts.seconds_left(asked - began, required=required), ANSWER_TIMEOUT))
        if check is None:
            log.info("the GPU scheduler does not know this server's ticket, so its GPUs are not checked")
            return
        required = check.required
        match timeouts.decide(check, monotonic() - began):
            case StartDecision.START:
                return
            case StartDecision.START_UNCHECKED:
                log.warning("kernels start although this server's GPUs were not checked: %s", check.sentence)
                return
            case StartDecision.REFUSE:
                raise KernelRefused(check.sentence)
            case StartDecision.GIVE_UP:
                raise KernelRefused(
                    "The GPUs of this server must be checked before a kernel starts, and nobody checked them within "
                    f"{timeouts.longest:.0f} s: {check.sentence} Start the kernel again in a moment; if that does not "
                    "help, tell your administrator."
                )
        if check.sentence != told:
            log.info("a kernel waits for the check of this server's GPUs: %s", check.sentence)
            told = check.sentence
        # An answer that came at once is requested again after a pause.
        await asyncio.sleep(max(0.0, asked + PAUSE - monotonic()))


async def _ask(service: ServiceClient, here: HubEnvironment, wait: float) -> DeviceCheckResult | None:
    """Return the service's result of the device check, which the service may await for up to `wait` seconds.

    Returns None if the service does not know this server's ticket, and the result UNWATCHED if it cannot be used.
    """
    try:
        found = await service.server_devices(here.ticket, wait)
    except ServiceError as error:
        if error.status == 404:
            return None
        return DeviceCheckResult(result="UNWATCHED", required=here.devices == NAMED, sentence=error.problem.message)
    return DeviceCheckResult(result=found.result, required=found.required, sentence=found.sentence)

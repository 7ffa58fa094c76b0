"""The wait for the check of the devices that this container can open, before anything of the job runs.

See docs/decisions/0035-check-visible-devices-before-a-share-is-used.md.
"""

import logging
from collections.abc import Callable

from jupyter_gq.client.pods.device_check import ANSWER_TIMEOUT, CheckTimeouts, DeviceCheckResult, StartDecision
from jupyter_gq.domain.errors import MachineError
from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.problems import RunError

log = logging.getLogger(__name__)


class DevicesNotChecked(MachineError):
    """A required device check that was not made in time. The text is a sentence; the job may run on another node."""


def await_device_check(ask: Callable[[float], DeviceCheckResult | None], timeouts: CheckTimeouts) -> None:
    """Ask for the result of the device check until the job may start; raise if it may not.

    If the check is not required and does not come in time, the job may start with a warning. Raises `RunError` if the
    devices are wrong, and `DevicesNotChecked` if a required check was not made in time. `ask(seconds)` returns the
    result of the check within `seconds`, or None if the service has no such route; then the job may start.
    """
    began = monotonic()
    required, told = False, ""
    while True:
        check = ask(min(timeouts.seconds_left(monotonic() - began, required=required), ANSWER_TIMEOUT))
        if check is None:
            log.info("The service does not say which devices this container sees.")
            return
        required = check.required
        match timeouts.decide(check, monotonic() - began):
            case StartDecision.START:
                return
            case StartDecision.START_UNCHECKED:
                log.warning("The job starts although its devices were not checked. %s", check.sentence)
                return
            case StartDecision.REFUSE:
                raise RunError(check.sentence)
            case StartDecision.GIVE_UP:
                raise DevicesNotChecked(
                    f"The devices of this job must be checked before it starts, and nobody checked them within "
                    f"{timeouts.longest:.0f} s: {check.sentence}"
                )
        if check.sentence != told:
            log.info("Waiting for the check of this job's devices. %s", check.sentence)
            told = check.sentence

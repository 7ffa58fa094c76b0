"""Waits until somebody has looked at the devices that this container can open, before anything of the job runs."""

import logging
from collections.abc import Callable

from jupyter_gq.client.devices import ANSWER, Look, Patience, Ruling
from jupyter_gq.runner.clock import steady
from jupyter_gq.runner.problems import RunError

log = logging.getLogger(__name__)


class NobodyLooked(Exception):
    """Its devices must be looked at before it begins, and were not; the text says so. Another node may do."""


def await_look(ask: Callable[[float], Look | None], patience: Patience) -> None:
    """Return when the job may begin; `RunError` and `NobodyLooked` say why it may not.

    `ask` gets the seconds in which it should answer; None is the answer of a service that does not tell.
    """
    began = steady()
    required, told = False, ""
    while True:
        look = ask(min(patience.left(steady() - began, required=required), ANSWER))
        if look is None:
            log.info("The service does not tell which devices this container sees.")
            return
        required = look.required
        match patience.rule(look, steady() - began):
            case Ruling.BEGIN:
                return
            case Ruling.BEGIN_UNSEEN:
                log.warning("It begins without a look at its devices. %s", look.sentence)
                return
            case Ruling.REFUSE:
                raise RunError(look.sentence)
            case Ruling.GIVE_UP:
                raise NobodyLooked(
                    f"Its devices must be looked at before it begins, and in {patience.longest:.0f} s nobody did: "
                    f"{look.sentence}"
                )
        if look.sentence != told:
            log.info("Waiting until its devices were looked at. %s", look.sentence)
            told = look.sentence

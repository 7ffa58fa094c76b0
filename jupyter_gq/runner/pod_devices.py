"""Waits until somebody has looked at the devices that this container can open, before anything of the job runs.

Rules
-----
1. Devices of others: nothing is run.
2. Where nobody can tell, or where nobody looks and nobody has to, it is said in the log and the job runs.
3. Where somebody has to look and does not, nothing is run, and the job goes back to its queue: another node may do.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_gq.runner.clock import steady
from jupyter_gq.runner.problems import RunError

log = logging.getLogger(__name__)

#: Seconds that the service may take for one answer.
ANSWER = 10.0


class NobodyLooked(Exception):
    """Its devices must be looked at before it begins, and were not; the text says so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the service knows."""

    #: RIGHT, WRONG, UNCLEAR, UNSEEN or UNWATCHED.
    sight: str
    #: It must not begin before it was looked at.
    required: bool
    sentence: str


def await_verdict(ask: Callable[[float], Verdict | None], *, wait: float, longest: float) -> None:
    """Return when the job may begin; `RunError` and `NobodyLooked` say why it may not.

    `ask` gets the seconds in which it should answer; None is the answer of a service that does not tell. A task that
    has to be looked at waits for `longest` seconds, any other for `wait`.
    """
    began = steady()
    required, told = False, ""
    while True:
        left = began + (longest if required else wait) - steady()
        verdict = ask(max(0.0, min(left, ANSWER)))
        if verdict is None:
            log.info("The service does not tell which devices this container sees.")
            return
        if verdict.sight == "RIGHT":
            return
        if verdict.sight == "WRONG":
            raise RunError(verdict.sentence)
        required = verdict.required
        unwatched = verdict.sight == "UNWATCHED" and not required
        if verdict.sight == "UNCLEAR" or unwatched or steady() >= began + (longest if required else wait):
            if required and verdict.sight != "UNCLEAR":
                raise NobodyLooked(
                    f"Its devices must be looked at before it begins, and in {longest:.0f} s nobody did: "
                    f"{verdict.sentence}"
                )
            log.warning("It begins without a look at its devices. %s", verdict.sentence)
            return
        if verdict.sentence != told:
            log.info("Waiting until its devices were looked at. %s", verdict.sentence)
            told = verdict.sentence

"""The decision whether work may start in a container whose devices must be checked first. Pure, standard library only.

The runner asks before a job, and the Jupyter server asks before its first kernel.

Rules
-----
- Foreign devices: if the container sees devices of others, nothing is run.
- Unknowable devices: if nobody can tell, or if no check is required and no agent makes one, the work starts.
- Missing check: if a check is required and none is made in time, nothing is run.
"""

from dataclasses import dataclass
from enum import Enum, auto

#: Timeout of one answer of the service, in seconds.
ANSWER_TIMEOUT = 10.0
#: Environment variable of a notebook's pod that has GPUs: how the pod was given its devices.
DEVICES_GIVEN_VARIABLE = "JUPYTER_GQ_DEVICES_GIVEN"
#: Values of that variable. NAMED: our backend named the devices, so only a check shows that the container has no
#: others. CHOSEN: the device plugin of the cluster chose them.
NAMED, CHOSEN = "named", "chosen"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCheckResult:
    """The result of the device visibility check of one container; see `models.TaskDeviceCheck`."""

    #: RIGHT, WRONG, UNCLEAR, UNCHECKED or UNWATCHED.
    result: str
    #: Whether nothing may start before the devices were checked.
    required: bool
    #: Explanation for a person.
    sentence: str


class StartDecision(Enum):
    """The consequence of a device check."""

    START = auto()
    #: Start, and log that the devices were not checked: no check was required or possible.
    START_UNCHECKED = auto()
    WAIT = auto()
    #: Run nothing: a check was required and was not made in time.
    GIVE_UP = auto()
    #: Run nothing: the container sees devices of others.
    REFUSE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckTimeouts:
    """How long to wait for a device check, in seconds from the start of the container."""

    #: Timeout if no check is required.
    wait: float
    #: Timeout if a check is required.
    longest: float

    def seconds_left(self, waited: float, *, required: bool) -> float:
        """Return how many seconds of the timeout remain after `waited` seconds, at least 0.

        The timeout is `longest` if a check is required, and `wait` otherwise.
        """
        return max(0.0, (self.longest if required else self.wait) - waited)

    def decide(self, check: DeviceCheckResult, waited: float) -> StartDecision:
        """Return what follows from the result `check` after `waited` seconds.

        A RIGHT check starts the work, a WRONG one refuses it. UNCLEAR starts the work unchecked, and so does UNWATCHED
        if no check is required. Otherwise the work waits. After the timeout it is given up if a check is required, and
        started unchecked if not.
        """
        if check.result == "RIGHT":
            return StartDecision.START
        if check.result == "WRONG":
            return StartDecision.REFUSE
        if check.result == "UNCLEAR" or (check.result == "UNWATCHED" and not check.required):
            return StartDecision.START_UNCHECKED
        if self.seconds_left(waited, required=check.required) > 0:
            return StartDecision.WAIT
        return StartDecision.GIVE_UP if check.required else StartDecision.START_UNCHECKED

"""Whether work may begin in a container whose devices somebody has to look at first. Pure, standard library only.

Asked by the runner before a job and by the Jupyter server before its first kernel.

Rules
-----
1. Devices of others: nothing is run.
2. Where nobody can tell, or where nobody looks and nobody has to, it begins.
3. Where somebody has to look and does not, nothing is run.
"""

from dataclasses import dataclass
from enum import Enum, auto

#: Seconds that the service may take for one answer.
ANSWER = 10.0
#: Variable of a notebook's pod that has GPUs: how its devices were given.
GIVEN = "JUPYTER_GQ_DEVICES_GIVEN"
#: Its values: we named them, so only a look tells whether the container has no others; or the device plugin chose them.
NAMED, CHOSEN = "named", "chosen"


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the service knows of the devices of one container; see `models.TaskDevices`."""

    #: RIGHT, WRONG, UNCLEAR, UNSEEN or UNWATCHED.
    sight: str
    #: Nothing may begin before it was looked at.
    required: bool
    #: For a person.
    sentence: str


class Ruling(Enum):
    """What follows from it."""

    BEGIN = auto()
    #: Nobody looked, and nobody had to or could: that is to be said.
    BEGIN_UNSEEN = auto()
    WAIT = auto()
    #: Nobody looked in time, and somebody had to.
    GIVE_UP = auto()
    #: It sees devices of others.
    REFUSE = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long a look is waited for, in seconds from the beginning."""

    #: Where it is not required.
    wait: float
    #: Where it is.
    longest: float

    def left(self, waited: float, *, required: bool) -> float:
        """Seconds that remain, at least 0."""
        return max(0.0, (self.longest if required else self.wait) - waited)

    def rule(self, look: Look, waited: float) -> Ruling:
        """What to do after so many seconds."""
        if look.sight == "RIGHT":
            return Ruling.BEGIN
        if look.sight == "WRONG":
            return Ruling.REFUSE
        if look.sight == "UNCLEAR" or (look.sight == "UNWATCHED" and not look.required):
            return Ruling.BEGIN_UNSEEN
        if self.left(waited, required=look.required) > 0:
            return Ruling.WAIT
        return Ruling.GIVE_UP if look.required else Ruling.BEGIN_UNSEEN

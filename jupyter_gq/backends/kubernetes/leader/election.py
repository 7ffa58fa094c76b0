"""Who of several services leads: the decisions of one candidate, by the rules of `lease`.

Pure: what is seen of the Lease, and the time, are arguments.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.json_types import JsonMapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """In seconds. A leader stops at least `duration - renewed_within` before another may begin."""

    #: A record that has not changed for so long belongs to nobody.
    duration: float = 15.0
    #: A leader that has not renewed for so long stops acting.
    renewed_within: float = 10.0
    #: Between two tries.
    retry: float = 2.0
    #: A leader that has not reached its store for so long gives the Lease back: longer than most outages, in which
    #: another would be no better off.
    without_store: float = 60.0

    @classmethod
    def of(cls, duration: float) -> "Times":
        """In the usual proportions."""
        usual = cls()
        share = duration / usual.duration
        return cls(
            duration=duration,
            renewed_within=usual.renewed_within * share,
            retry=usual.retry * share,
            without_store=usual.without_store * share,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """What a Lease says."""

    #: "" when it was given back.
    holder: str
    #: Another one after each change.
    version: str
    #: How long its holder says that it lasts.
    duration: float = 0.0


class Move(StrEnum):
    """What to do about the Lease."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


def held_by(body: JsonMapping) -> Held:
    """What an object of the API says."""
    spec = body.get("spec") or {}
    return Held(
        holder=str(spec.get("holderIdentity") or ""),
        version=str((body.get("metadata") or {}).get("resourceVersion") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
    )


@dataclass(kw_only=True, slots=True)
class Election:
    """The decisions of one candidate, by its own clock.

    Safety: of all candidates on one Lease, at most one has `leads` true, if their clocks run at nearly the same speed.
    """

    identity: str
    times: Times = field(default_factory=Times)
    _seen: Held | None = field(init=False, default=None)
    #: When what was seen last was seen first.
    _since: float = field(init=False, default=0.0)
    #: Up to when it leads; None while it does not hold the Lease.
    _until: float | None = field(init=False, default=None)

    def leads(self, now: float) -> bool:
        """Whether it may act."""
        return self._until is not None and now < self._until

    def look(self, found: Held | None, now: float) -> Move:
        """The Lease is so at this moment (None: there is none)."""
        if found is not None and found != self._seen:
            self._seen, self._since = found, now
        seen = self._seen
        if found is not None and found.holder == self.identity:
            return Move.RENEW
        self._until = None
        # A lease that somebody deleted counts as held on by whom it was seen with: he may not know it yet.
        taken = seen is not None and seen.holder not in ("", self.identity)
        if seen is not None and taken and now < self._since + max(self.times.duration, seen.duration):
            return Move.WAIT
        return Move.CREATE if found is None else Move.TAKE

    def wrote(self, written: Held, began: float, now: float) -> None:
        """It was written so; `began` is when the request was about to be sent."""
        self._seen, self._since = written, now
        self._until = began + self.times.renewed_within if written.holder == self.identity else None

    def holder(self) -> str:
        """Who held it when it was seen last; "" = nobody."""
        return "" if self._seen is None else self._seen.holder

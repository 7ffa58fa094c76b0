"""The election: the decisions of one candidate for the lead, by the rules of `lease`.

Pure: the state of the Lease and the time are arguments.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from jupyter_gq.domain.json_types import JsonMapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Times:
    """Times in seconds. A leader stops at least `duration - renewed_within` before another may begin."""

    #: A Lease that has not changed for this time belongs to nobody.
    duration: float = 15.0
    #: A leader that has not renewed for this time stops acting.
    renewed_within: float = 10.0
    #: Time between two tries.
    retry: float = 2.0
    #: A leader without contact to its store for this time gives the Lease back. Most outages are shorter; in them
    #: another service would be no better off.
    without_store: float = 60.0

    @classmethod
    def of(cls, duration: float) -> "Times":
        """Return times for a Lease of `duration` seconds, all in the proportions of the defaults."""
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
    """The contents of a Lease."""

    #: The holder; "" if the Lease was given back.
    holder: str
    #: Another one after each change.
    version: str
    #: How long the Lease lasts, in its holder's words.
    duration: float = 0.0


class Move(StrEnum):
    """The next step of a candidate."""

    CREATE = "create"
    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


def parse_lease(body: JsonMapping) -> Held:
    """Return the contents of a Lease object."""
    spec = body.get("spec") or {}
    return Held(
        holder=str(spec.get("holderIdentity") or ""),
        version=str((body.get("metadata") or {}).get("resourceVersion") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
    )


@dataclass(kw_only=True, slots=True)
class Election:
    """The decisions of one candidate, by its own clock.

    Safety: of all candidates for one Lease, at most one has `leads` true, if their clocks run at nearly the same speed.
    """

    identity: str
    times: Times = field(default_factory=Times)
    _seen: Held | None = field(init=False, default=None)
    #: When the present contents were first seen.
    _since: float = field(init=False, default=0.0)
    #: The end of the lead; None while this candidate does not hold the Lease.
    _until: float | None = field(init=False, default=None)

    def leads(self, now: float) -> bool:
        """Return True if this candidate may act: it wrote the Lease last, less than `renewed_within` seconds ago."""
        return self._until is not None and now < self._until

    def next_move(self, found: Held | None, now: float) -> Move:
        """Record the Lease as read at this moment (None: there is none), and return what to do with it.

        The result is RENEW for one's own Lease, CREATE or TAKE for a free or expired one, and WAIT otherwise. A
        candidate that does not find its own Lease leads no more.
        """
        if found is not None and found != self._seen:
            self._seen, self._since = found, now
        seen = self._seen
        if found is not None and found.holder == self.identity:
            return Move.RENEW
        self._until = None
        # A deleted Lease counts as still held by its last holder, which may not know of the deletion yet.
        taken = seen is not None and seen.holder not in ("", self.identity)
        if seen is not None and taken and now < self._since + max(self.times.duration, seen.duration):
            return Move.WAIT
        return Move.CREATE if found is None else Move.TAKE

    def record_write(self, written: Held, began: float, now: float) -> None:
        """Record that the Lease was written; the lead is counted from `began`, the moment before the request was sent.

        If the written holder is another one, the lead is given up.
        """
        self._seen, self._since = written, now
        self._until = began + self.times.renewed_within if written.holder == self.identity else None

    def holder(self) -> str:
        """Return the holder of the Lease when last seen; "" = nobody."""
        return "" if self._seen is None else self._seen.holder

"""The event stream: every change that a listener may see, in order.

Guarantees
----------
Complete: a listener gets every stored event that it may see, in the order of the ids, after the id that it names. Only
earlier events of work that was deleted since then are left out: nothing is shown of that work any more.

Reset: events that are too old, or that a listener reads too slowly, are replaced by one `reset`. The listener then
fetches the lists again.

Transient events: an event that is not stored (a new position, output that grew) has no id. Only the newest one of each
object waits for a listener.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Literal, cast

from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.domain.errors import LimitReached
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.store.protocol import Store, StoredEvent

from .caller import Caller

#: Number of unread events after which a listener gets a `reset` instead of them.
MOST_UNREAD = 1_000

_EventKind = Literal["job", "notebook", "output", "queues", "reset"]


class Subscription(AsyncIterator[ServiceEvent]):
    """The events of one listener, as an asynchronous iterator; `close` ends the iteration."""

    def __init__(self, caller: Caller, on_close: Callable[["Subscription"], None]) -> None:
        self._caller, self._on_close = caller, on_close
        self._unread: OrderedDict[tuple[str, str | int | None], ServiceEvent] = OrderedDict()
        self._arrived = asyncio.Event()
        self._closed = False

    def change_caller(self, caller: Caller) -> None:
        """Continue with the present rights of the caller; if they have changed, one `reset` replaces unread events."""
        if caller != self._caller:
            self._caller = caller
            self._unread.clear()
            self._unread["reset", None] = ServiceEvent(kind="reset", data={})
            self._arrived.set()

    @property
    def caller(self) -> Caller:
        """The listener, with the present rights."""
        return self._caller

    @property
    def user(self) -> str:
        """The name of the listening user or service."""
        return self._caller.user

    def may_see(self, owner: str | None) -> bool:
        """Return whether the listener may see objects of this owner; None stands for objects that everybody may see."""
        return self._caller.may_see(owner)

    def offer(self, owner: str | None, object_id: str, event: ServiceEvent) -> None:
        """Queue an event about an object for the listener, if the listener may see objects of this owner.

        A newer event without an id replaces the unread one about the object. If too many events are unread, one `reset`
        replaces all of them.
        """
        if self._closed or not self._caller.may_see(owner):
            return
        key: tuple[str, str | int | None] = (event.kind, object_id) if event.id is None else ("id", event.id)
        if len(self._unread) >= MOST_UNREAD and key not in self._unread:
            self._unread.clear()
            key, event = ("reset", None), ServiceEvent(id=event.id, kind="reset", data={})
        self._unread[key] = event
        self._arrived.set()

    def close(self) -> None:
        """End the subscription; its iteration ends once the unread events are read."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            self._arrived.set()

    async def __anext__(self) -> ServiceEvent:
        """Wait for the next event, and return it; raise `StopAsyncIteration` after `close`, once no event is unread."""
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popitem(last=False)[1]


class Broker:
    """The distribution of events to all listeners."""

    def __init__(self, store: Store, most_per_user: Callable[[], int], is_hidden: Callable[[str], bool]) -> None:
        """Start without listeners.

        `most_per_user` returns how many subscriptions one user may have at one time; `is_hidden` tells whether the
        workload of that id is being deleted.
        """
        self._store, self._most_per_user, self._is_hidden = store, most_per_user, is_hidden
        self._listeners: set[Subscription] = set()

    def subscribe(self, caller: Caller, after: int | None) -> Subscription:
        """Add a listener, and return its subscription. Raises `LimitReached` if the caller has too many subscriptions.

        `after` is the id of the last event that the listener has seen: the events since then come first. With None only
        new events come.
        """
        own = sum(1 for listener in self._listeners if listener.user == caller.user)
        if own >= self._most_per_user():
            raise LimitReached(
                f"You have {own} open event streams, and at most {self._most_per_user()} are possible. "
                "Close some of your notebook servers."
            )
        subscription = Subscription(caller, self._listeners.discard)
        if after is not None:
            self._replay(subscription, after)
        self._listeners.add(subscription)
        return subscription

    def publish(self, stored: StoredEvent) -> None:
        """Queue a stored event for all listeners that may see its object."""
        event = _wire(stored)
        for listener in tuple(self._listeners):
            listener.offer(stored.owner, stored.object, event)

    def announce(self, owner: str | None, kind: _EventKind, object_id: str, data: JsonObject) -> None:
        """Queue an event that is not stored for all listeners that may see objects of `owner`; None = all listeners."""
        event = ServiceEvent(kind=kind, data=data)
        for listener in tuple(self._listeners):
            listener.offer(owner, object_id, event)

    def has_listener(self, owner: str | None) -> bool:
        """Return whether any listener may see objects of this owner."""
        return any(listener.may_see(owner) for listener in self._listeners)

    def close(self) -> None:
        """Close all subscriptions."""
        for listener in tuple(self._listeners):
            listener.close()

    def _replay(self, subscription: Subscription, after: int) -> None:
        """Queue the stored events after the id `after`, or one `reset` if they are not all known or are too many.

        Events of workloads that were deleted, or are being deleted, are left out.
        """
        oldest, newest = self._store.event_range()
        missed = self._store.events_after(after, MOST_UNREAD) if after <= newest else ()
        if after > newest or after < oldest - 1 or len(missed) >= MOST_UNREAD:
            subscription.offer(None, "", ServiceEvent(id=newest, kind="reset", data={}))
            return
        known = self._store.known_ids(sorted({stored.object for stored in missed}))
        for stored in missed:
            if stored.object in known and not self._is_hidden(stored.object):
                subscription.offer(stored.owner, stored.object, _wire(stored))


def _wire(stored: StoredEvent) -> ServiceEvent:
    return ServiceEvent(id=stored.id, kind=cast(_EventKind, stored.kind), data=stored.payload)

"""Where a task can go: what is free on each device and node, now and soon, and which of the fitting places to take.

Rules
-----
1. `free` is what nobody holds now. `future` is what nobody will hold once everything told to stop has stopped,
   less what is promised to those who wait for it. That goes for devices and for the CPU, memory and number of tasks
   of a node alike: what is stopping still holds them.
2. Something may start now where both have room for it, so nobody snatches what is promised to another.
3. Every change is written down and can be rolled back; nothing is copied.
4. First filter (pool, model, device memory, labels, domain; then room), then choose (`choice`): pack takes the fullest
   device (node) that fits, spread the emptiest; ties go to the lowest (node, index, id).
5. What a task filters by is a *scope*: made when it is first asked for, kept up to date from then on.

Cost: the members of a scope lie in buckets by what is free on them, so a choice takes as many steps as there are
different amounts, not as many as there are devices. Nodes whose CPU and memory are not counted have no room to look at.
"""

from .choice import Choice, Ground, Spot
from .device_memory import MemoryParts, resolved
from .host_resources import View
from .ledger import DeviceLedger, at_its_best, empty_ledger
from .policies import choice_of
from .request_mix import Mix
from .scope import Domain, Filter, Scope, filter_of

__all__ = [
    "Choice",
    "DeviceLedger",
    "Domain",
    "Filter",
    "Ground",
    "MemoryParts",
    "Mix",
    "Scope",
    "Spot",
    "View",
    "at_its_best",
    "choice_of",
    "empty_ledger",
    "filter_of",
    "resolved",
]

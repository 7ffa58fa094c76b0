"""Placement: what is free on each device and node, now and soon, and which of the fitting places to take.

Rules
-----
1. Amounts. `free` is what nobody holds now. `future` is what nobody will hold once everything told to stop has stopped,
   less what nominated work gets. That goes for devices and for the CPU, memory and number of tasks of a node
   alike: stopping work still holds them.
2. Start. Work may start now only if both amounts have room for it, so that no work takes the
   place of nominated work.
3. Rollback. Every change is written down and can be rolled back; nothing is copied.
4. Filter, then choose. The filters are pool, model, device memory, labels and domain, then free resources. Then the
   policy chooses (`choice`): pack takes the fullest device or node that fits, spread the emptiest; ties go to the
   lowest node, index and id.
5. Scopes. The places that pass a task's filters are a *scope*: made when first asked for, kept up to date from then on.

Cost: the members of a scope lie in buckets by their free amount, so a choice takes as many steps as there are different
amounts, not as many as there are devices. Nodes whose CPU and memory are not counted are not looked at for them.
"""

from .choice import FreeResources, PlacementPolicy, Spot
from .device_memory import MemoryParts, resolved
from .empty_ledgers import at_its_best, empty_ledger
from .host_resources import View
from .ledger import Bundle, DeviceLedger
from .policies import make_policy
from .request_mix import RequestMix
from .scope import Domain, Filter, Scope, filter_of

__all__ = [
    "Bundle",
    "DeviceLedger",
    "Domain",
    "Filter",
    "FreeResources",
    "MemoryParts",
    "PlacementPolicy",
    "RequestMix",
    "Scope",
    "Spot",
    "View",
    "at_its_best",
    "empty_ledger",
    "filter_of",
    "make_policy",
    "resolved",
]

"""Providers of fractions of a GPU: one for each pool, never two on a node."""

from collections.abc import Mapping

from .hami import Hami
from .kai import Kai
from .protocol import ShareProvider
from .reservation import ReservationProvider

#: Every provider by the name that a pool uses.
PROVIDERS: Mapping[str, ShareProvider] = {
    provider.name: provider for provider in (ReservationProvider(), Hami(), Kai())
}

__all__ = ["PROVIDERS", "ShareProvider"]

"""The placement policies by their names."""

from jupyter_gq.scheduling.policy import PlacementStrategy

from .choice import FullnessPolicy, PlacementPolicy
from .request_mix import RequestMix


def make_policy(placement: PlacementStrategy, mix: RequestMix | None = None) -> PlacementPolicy:
    """Return a new placement policy for that strategy.

    `mix` is the request mix of the strategy `fragmentation`, kept up to date by its owner; None = an empty one.
    """
    if placement is PlacementStrategy.FRAGMENTATION:
        from .fragmentation import FragmentationPolicy  # here, so that numpy is only loaded where it is used

        return FragmentationPolicy(RequestMix() if mix is None else mix)
    return FullnessPolicy(spread=placement is PlacementStrategy.SPREAD)

"""The placement policies by their names."""

from jupyter_gq.scheduling.policy import Placement

from .choice import ByFullness, Choice
from .request_mix import Mix


def choice_of(placement: Placement, mix: Mix | None = None) -> Choice:
    """A new object for the policy of that name; `mix` is what is asked for, kept up to date by its owner."""
    if placement is Placement.FRAGMENTATION:
        from .fragmentation import ByFragmentation  # here, so that numpy is only loaded where it is used

        return ByFragmentation(Mix() if mix is None else mix)
    return ByFullness(spread=placement is Placement.SPREAD)

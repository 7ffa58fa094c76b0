"""The troubles of a soak run strike in turn, and often enough on a slow machine; the cells of the jobs are programs."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from .cells import draw_cell
from .plan import Plan
from .troubles import Damage, Trouble, Troublemaker


class First(Trouble):
    """A trouble that always finds something to strike."""

    async def strike(self, rng):
        return True


class Second(First):
    """Another one of the same kind."""


class EndsTheService(First):
    """A trouble after which the service starts anew."""

    ends_service = True


class FindsNothing(Trouble):
    """A trouble that never finds something to strike."""

    async def strike(self, rng):
        return False


def strikes(tmp_path, kinds, *, minutes=0.0, least):
    """Return how often each trouble struck in a run that lasts until `least` have struck."""
    plan = Plan(folder=tmp_path, seed=1, minutes=minutes, trouble_every=0.001, least_troubles=least)
    damage = Damage()

    async def play():
        world = SimpleNamespace(plan=plan, calm=asyncio.Lock())
        maker = Troublemaker(world, damage, kinds)
        await maker.make_trouble()

    asyncio.run(play())
    return dict(damage.strikes)


def test_each_trouble_strikes_once_before_any_strikes_again(tmp_path):
    assert strikes(tmp_path, (First, Second), least=2) == {"First": 1, "Second": 1}
    assert strikes(tmp_path, (First, Second), least=6) == {"First": 3, "Second": 3}


def test_a_trouble_that_finds_nothing_to_strike_holds_no_other_one_up(tmp_path):
    assert strikes(tmp_path, (First, FindsNothing, Second), least=6) == {"First": 3, "Second": 3}


@pytest.mark.parametrize("kinds", [(First, EndsTheService), (EndsTheService, First)])
def test_the_service_is_not_ended_in_the_second_half(tmp_path, kinds):
    assert strikes(tmp_path, kinds, least=4) == {"First": 4}


def test_every_kind_of_cell_is_a_program(tmp_path):
    rng = random.Random(1)
    drawn = [draw_cell(rng, tmp_path) for _ in range(200)]
    assert {cell.kind for cell in drawn} == {"short", "long", "prints", "fails", "daemon"}
    for cell in drawn:
        compile(cell.source, cell.kind, "exec")

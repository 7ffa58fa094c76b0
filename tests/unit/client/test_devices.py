"""When work may begin in a container whose devices somebody has to look at."""

import pytest

from jupyter_gq.client.devices import Look, Patience, Ruling

PATIENCE = Patience(wait=20, longest=120)
BEGIN, UNSEEN, WAIT, GIVE_UP, REFUSE = Ruling


@pytest.mark.parametrize(
    ("sight", "required", "after"),
    [
        # at once, at the shorter bound, at the longer one
        ("RIGHT", True, (BEGIN, BEGIN, BEGIN)),
        ("RIGHT", False, (BEGIN, BEGIN, BEGIN)),
        ("WRONG", True, (REFUSE, REFUSE, REFUSE)),
        ("WRONG", False, (REFUSE, REFUSE, REFUSE)),
        ("UNCLEAR", True, (UNSEEN, UNSEEN, UNSEEN)),
        ("UNCLEAR", False, (UNSEEN, UNSEEN, UNSEEN)),
        ("UNSEEN", True, (WAIT, WAIT, GIVE_UP)),
        ("UNSEEN", False, (WAIT, UNSEEN, UNSEEN)),
        ("UNWATCHED", True, (WAIT, WAIT, GIVE_UP)),
        ("UNWATCHED", False, (UNSEEN, UNSEEN, UNSEEN)),
    ],
)
def test_what_follows_from_what_is_known(sight, required, after):
    look = Look(sight=sight, required=required, sentence="")
    assert tuple(PATIENCE.rule(look, waited) for waited in (0, 20, 120)) == after


def test_no_time_is_left_but_never_less():
    assert [PATIENCE.left(waited, required=False) for waited in (0, 15, 25)] == [20, 5, 0]
    assert PATIENCE.left(25, required=True) == 95

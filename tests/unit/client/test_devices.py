"""When work may start in a container whose devices must be checked first."""

import pytest

from jupyter_gq.client.pods.device_check import CheckTimeouts, DeviceCheckResult, StartDecision

TIMEOUTS = CheckTimeouts(wait=20, longest=120)
START, UNCHECKED, WAIT, GIVE_UP, REFUSE = StartDecision


@pytest.mark.parametrize(
    ("result", "required", "after"),
    [
        # at once, at the shorter timeout, at the longer one
        ("RIGHT", True, (START, START, START)),
        ("RIGHT", False, (START, START, START)),
        ("WRONG", True, (REFUSE, REFUSE, REFUSE)),
        ("WRONG", False, (REFUSE, REFUSE, REFUSE)),
        ("UNCLEAR", True, (UNCHECKED, UNCHECKED, UNCHECKED)),
        ("UNCLEAR", False, (UNCHECKED, UNCHECKED, UNCHECKED)),
        ("UNCHECKED", True, (WAIT, WAIT, GIVE_UP)),
        ("UNCHECKED", False, (WAIT, UNCHECKED, UNCHECKED)),
        ("UNWATCHED", True, (WAIT, WAIT, GIVE_UP)),
        ("UNWATCHED", False, (UNCHECKED, UNCHECKED, UNCHECKED)),
    ],
)
def test_decision_follows_from_the_check_and_the_time_waited(result, required, after):
    check = DeviceCheckResult(result=result, required=required, sentence="")
    assert tuple(TIMEOUTS.decide(check, waited) for waited in (0, 20, 120)) == after


def test_seconds_left_are_never_negative():
    assert [TIMEOUTS.seconds_left(waited, required=False) for waited in (0, 15, 25)] == [20, 5, 0]
    assert TIMEOUTS.seconds_left(25, required=True) == 95

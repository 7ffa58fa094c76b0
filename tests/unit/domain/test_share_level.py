"""The level of a share follows from what enforces its limit now, and never says more."""

import itertools

import pytest

from jupyter_gq.domain.share_level import Enforcement, ShareLevel, decide_level


def test_each_level_has_a_sentence_of_its_own():
    sentences = [level.meaning for level in ShareLevel]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (Enforcement(has_gpu=False, whole=True, capped=True), ShareLevel.NONE),
        (Enforcement(has_gpu=True, whole=True), ShareLevel.HARDWARE),
        (Enforcement(has_gpu=True, whole=True, divided_by=ShareLevel.ADVISORY), ShareLevel.HARDWARE),
        (Enforcement(has_gpu=True, whole=False, divided_by=ShareLevel.INTERCEPT), ShareLevel.INTERCEPT),
        (Enforcement(has_gpu=True, whole=False, divided_by=ShareLevel.ADVISORY, capped=True), ShareLevel.ADVISORY),
        (Enforcement(has_gpu=True, whole=False, capped=True), ShareLevel.COOPERATIVE),
        (Enforcement(has_gpu=True, whole=False), ShareLevel.ADVISORY),
    ],
)
def test_level_is_that_of_the_strongest_enforcer(found, level):
    assert decide_level(found) is level


def test_part_of_a_device_is_never_limited_by_hardware():
    for divided_by, capped in itertools.product([None, ShareLevel.INTERCEPT, ShareLevel.ADVISORY], [True, False]):
        found = Enforcement(has_gpu=True, whole=False, divided_by=divided_by, capped=capped)
        assert decide_level(found) is not ShareLevel.HARDWARE

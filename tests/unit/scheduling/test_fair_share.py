"""Dividing GPUs among siblings: deserved first, surplus by priority and weight, whole GPUs, largest remainder."""

import pytest

from jupyter_gq.scheduling.quota.fair_share import QueueClaim, divide

GPU = 1000


def claim(quota=0, demand=100 * GPU, **fields):
    return QueueClaim(quota=quota, demand=demand, **fields)


def test_the_deserved_quota_comes_first_even_if_there_is_not_enough():
    assert divide(1 * GPU, [claim(2 * GPU), claim(1 * GPU)]) == [2 * GPU, 1 * GPU]


def test_no_queue_gets_more_than_it_wants_or_may():
    assert divide(10 * GPU, [claim(3 * GPU, demand=500), claim(3 * GPU, limit=2 * GPU)]) == [500, 2 * GPU]


def test_surplus_is_divided_by_weight():
    assert divide(12 * GPU, [claim(3 * GPU, weight=1), claim(1 * GPU, weight=7)]) == [4 * GPU, 8 * GPU]


def test_weight_zero_gets_no_surplus():
    assert divide(4 * GPU, [claim(1 * GPU, weight=0), claim(1 * GPU)]) == [1 * GPU, 3 * GPU]


def test_surplus_goes_to_the_higher_priority_first():
    assert divide(4 * GPU, [claim(priority=1, demand=3 * GPU), claim(priority=2, demand=2 * GPU)]) == [2 * GPU, 2 * GPU]


def test_what_one_does_not_want_goes_to_the_others():
    assert divide(9 * GPU, [claim(demand=1 * GPU), claim(), claim()]) == [1 * GPU, 4 * GPU, 4 * GPU]


def test_surplus_is_given_in_whole_gpus_and_the_rest_to_the_largest_remainder():
    # 5 GPUs by weights 1 and 2 are 1.67 and 3.33: whole parts 1 and 3, and the last one to the remainder of 0.67.
    assert divide(5 * GPU, [claim(weight=1), claim(weight=2)]) == [2 * GPU, 3 * GPU]


def test_equal_remainders_are_settled_by_the_order_given():
    assert divide(1 * GPU, [claim(), claim()]) == [1 * GPU, 0]


def test_a_part_of_a_gpu_can_be_what_is_left():
    assert divide(1500, [claim(1 * GPU), claim(0, weight=0)]) == [1500, 0]


def test_a_remainder_never_exceeds_what_is_wanted():
    assert divide(1 * GPU, [claim(demand=600), claim(demand=600)]) == [600, 400]


def test_a_queue_that_wants_exactly_its_part_gets_it():
    assert divide(1 * GPU, [claim(demand=2 * GPU), claim(demand=500)]) == [500, 500]


def test_nothing_is_divided_into_nothing():
    assert divide(0, []) == []
    assert divide(1000, [claim(demand=0)]) == [0]


@pytest.mark.parametrize("total", [0, 300, 1000, 2500, 7000, 40_000])
@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 2, 3), (5, 0, 1)])
def test_the_surplus_is_given_away_completely_while_somebody_wants_it(total, weights):
    claims = [claim(weight=weight) for weight in weights]
    assert sum(divide(total, claims)) == total

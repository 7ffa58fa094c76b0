"""Reading `user_options`, however they came."""

import pytest

from jupyter_gq.domain.errors import UserError
from jupyter_gq.hub.admission.request import read_request


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        (None, "0"),
        ({}, "0"),
        ({"gpus": "0"}, "0"),
        ({"gpus": "0.250"}, "0.25"),
        ({"gpus": 0.5}, "0.5"),
        ({"gpus": 2}, "2"),
        ({"gpus": ["0.25"]}, "0.25"),
        ({"user_options": {"gpus": "0.25"}}, "0.25"),
        ({"user_options": {"gpus": "0.25"}, "display_name": "mine"}, "0.25"),
        ({"user_options": None}, "0"),
    ],
)
def test_every_form_means_the_same(options, gpus):
    assert read_request(options).gpus == gpus


@pytest.mark.parametrize(
    "options",
    [
        [1], "0.25", 3, {"gpus": "1.5"}, {"gpus": "abc"}, {"gpus": "0.1234"}, {"gpus": True}, {"gpus": None},
        {"gpus": []}, {"gpus": ["0.1", "0.2"]}, {"gpus": {}}, {"gpu": "0.25"}, {"user_options": [1]},
        {"user_options": {"gpus": "1"}, "image": "x"}, {"gpus": "nan"}, {"gpus": "-0.25"}, {"gpus": 1e400},
    ],
)  # fmt: skip
def test_what_means_nothing_is_an_error_of_the_user(options):
    with pytest.raises(UserError):
        read_request(options)


def test_keys_of_others_are_left_to_them():
    assert read_request({"image": "x", "gpus": "1"}, also_known={"image"}).gpus == "1"
    assert read_request({"anything": 1}, also_known=None).gpus == "0"
    with pytest.raises(UserError, match="known here: gpus, image"):
        read_request({"profile": "x"}, also_known={"image"})


@pytest.mark.parametrize(
    "options", [{"a" * 100_000: 1}, {str(number): 1 for number in range(1000)}], ids=["long", "many"]
)
def test_unknown_keys_are_named_in_a_short_sentence(options):
    with pytest.raises(UserError, match="known here: gpus") as raised:
        read_request(options)
    assert len(str(raised.value)) < 300

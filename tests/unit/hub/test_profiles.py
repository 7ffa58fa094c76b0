"""What options and profiles ask for together."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.errors import UserError
from jupyter_gq.hub.admission.profiles import find_named_shares, read_request_with_profiles

SIZES = {
    "display_name": "Size",
    "choices": {"none": {"gpus": "0"}, "half": {"gpus": "0.5", "default": True}, "own": {}},
    "unlisted_choice": {"enabled": False},
}
IMAGE = {"unlisted_choice": {"enabled": True, "validation_regex": "^good/.*$"}, "choices": {"a": {"default": True}}}
PROFILES = [
    {"slug": "gpu", "display_name": "Big", "gpus": "1", "default": True},
    {"slug": "free", "display_name": "Free"},
    {"slug": "cpu", "display_name": "Small", "gpus": 0},
    {"slug": "sized", "display_name": "Sized", "gpus": "1", "profile_options": {"size": SIZES, "image": IMAGE}},
    {"slug": "bare", "display_name": "Bare", "profile_options": {"tag": {"unlisted_choice": {"enabled": True}}}},
]


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        (None, "0"),  # the default profile has a GPU: nobody gets it by saying nothing
        ({"profile": ""}, "0"),
        ({"gpus": "0.25"}, "0.25"),
        ({"profile": "gpu"}, "1"),
        ({"profile": "gpu", "gpus": ""}, "1"),
        ({"profile": "gpu", "gpus": [""]}, "1"),
        ({"profile": "gpu", "gpus": 1}, "1"),
        ({"user_options": {"profile": "gpu"}}, "1"),
        ({"profile": "free"}, "0"),
        ({"profile": "free", "gpus": "0.5"}, "0.5"),
        ({"profile": "cpu"}, "0"),
        ({"profile": "sized"}, "0.5"),
        ({"profile": "sized", "size": "none"}, "0"),
        ({"profile": "sized", "size": "own"}, "1"),
        ({"profile": "sized", "size": "", "image--unlisted-choice": "good/one"}, "0.5"),
        ({"profile": "bare", "tag--unlisted-choice": "x", "gpus": "0.25"}, "0.25"),
    ],
)
def test_the_share_is_the_profiles_or_the_users(options, gpus):
    assert read_request_with_profiles(options, PROFILES).gpus == gpus


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"profile": "nope"}, "There is no profile 'nope'; known here: bare, cpu, free, gpu, sized."),
        ({"profile": 3}, "must be the name of a profile"),
        ({"profile": ["gpu"]}, "must be the name of a profile"),
        ({"profile": "gpu", "gpus": "0.5"}, "comes with 1 GPU, and you asked for 0.5 GPU"),
        ({"profile": "gpu", "gpus": "0"}, 'Choose "As the profile says"'),
        ({"profile": "free", "gpus": ""}, "The profile 'Free' leaves the share to you: choose an amount"),
        ({"profile": "sized", "size": "own", "gpus": ["", ""]}, "must be one number"),
        ({"gpus": ""}, "No profile is chosen: choose an amount"),
        ({"profile": "gpu", "gpus": "0"}, "comes with 1 GPU, and you asked for no GPU"),
        ({"profile": "cpu", "gpus": "1"}, "comes with no GPU, and you asked for 1 GPU"),
        ({"profile": "sized", "size": "huge"}, "size cannot be 'huge'; offered here: none, half, own"),
        ({"profile": "sized", "size": ["none"]}, "must be text"),
        ({"profile": "sized", "size--unlisted-choice": "x"}, "accepts only offered choices"),
        ({"profile": "sized", "image--unlisted-choice": "bad/one"}, "image cannot be 'bad/one'"),
        ({"profile": "bare"}, "The option tag has no default"),
        ({"profile": "gpu", "size": "none"}, "Unknown option 'size'"),
        ({"garbage": "x"}, "Unknown option 'garbage'"),
        ({"profile": "free", "gpus": "lots"}, "lots"),
    ],
)
def test_what_kubespawner_would_stumble_over_is_told_before(options, told):
    with pytest.raises(UserError, match=told.replace("[", r"\[")):
        read_request_with_profiles(options, PROFILES)


def test_without_profiles_a_profile_is_an_error_and_other_keys_are_the_administrators():
    with pytest.raises(UserError, match="There are no profiles here"):
        read_request_with_profiles({"profile": "gpu"}, [])
    assert read_request_with_profiles({"mine": 1, "gpus": 1}, [], also_known=None).gpus == "1"
    assert read_request_with_profiles({"mine": 1}, PROFILES, also_known=["mine"]).gpus == "0"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["gpu", "sized", "half", "0.5"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_keys = st.sampled_from(["profile", "gpus", "size", "image", "image--unlisted-choice", "user_options"])


@given(st.dictionaries(_keys | st.text(max_size=3), _json, max_size=4) | _json)
def test_whatever_arrives_is_a_request_or_a_sentence(options):
    """Safety: no other exception, which the Hub would count as a failed start."""
    with suppress(UserError):
        read_request_with_profiles(options, PROFILES)


def test_what_profiles_and_their_choices_name_is_told_to_the_page():
    named = find_named_shares([*PROFILES, {"slug": "odd", "display_name": "Odd", "gpus": "lots"}])
    assert {slug: each.gpus for slug, each in named.items()} == {
        **{"gpu": "1", "free": None, "cpu": "0", "sized": "1", "bare": None},
        "odd": "lots",  # the page is shown; a start is refused
    }
    assert named["sized"].options == {"size": {"none": "0", "half": "0.5"}, "image": {}}
    assert named["sized"].amounts == ["1", "0", "0.5"]
    assert named["free"].amounts == []

"""Tests of names in sentences: a reader sees a name or neutral words, and nothing of the marks."""

from jupyter_gq.domain.mentions import mention, render, reveal
from jupyter_gq.domain.plain_text import strip_controls

DIGITS = mention("ann", "ann's digits", "another user's job")
SERVER = mention("bob", "bob's server", "another user's notebook")


def test_each_mention_is_shown_as_its_reader_may_see_it():
    sentence = f"Waiting: {DIGITS} (1 GPU) and {SERVER} (0.5 GPU) are in the way."
    assert render(sentence, lambda owner: owner == "bob") == (
        "Waiting: another user's job (1 GPU) and bob's server (0.5 GPU) are in the way."
    )
    assert reveal(sentence) == "Waiting: ann's digits (1 GPU) and bob's server (0.5 GPU) are in the way."


def test_the_owner_reads_their_own_words():
    own = mention("ann", "ann's digits", "another user's job", "your job digits")
    sentence = f"{own} and {SERVER} are in the way."
    for reader, told in {"ann": "your job digits", "bob": "ann's digits", "carol": "another user's job"}.items():
        seen = render(sentence, lambda owner, r=reader: r != "carol", lambda owner, r=reader: owner == r)
        assert seen.startswith(f"{told} and "), reader
    assert reveal(sentence) == "ann's digits and bob's server are in the way."


def test_no_name_of_a_user_can_hold_a_mark():
    assert strip_controls(DIGITS).isprintable()
    assert reveal(strip_controls(DIGITS)) == strip_controls(DIGITS)

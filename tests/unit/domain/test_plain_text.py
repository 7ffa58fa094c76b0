"""Tests that texts from outside neither forge lines nor reorder the text around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.plain_text import join_name, quoted, shorten, split_options, strip_controls

BIDIRECTIONAL = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("digits", "digits"),
        ("über 数字 🔥", "über 数字 🔥"),
        ("one\ntwo\r\nthree\tfour", "one two  three four"),
        ("a\u2028b\u2029c\x85d", "a b c d"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("\x1b[2Jx\x07\x00\x7f\x9b31m", "x"),
        ("invoice\u202egnp.exe", "invoicegnp.exe"),
        ("\u2066a\u2069\u200f\u061c", "a"),
        ("क्\u200dष 👩\u200d💻", "क्\u200dष 👩\u200d💻"),
        ("half \ud800", "half "),
        ("mark\ufdd0\ufdef", "mark"),
        ("", ""),
    ],
)
def test_only_visible_characters_are_left_of_a_name(text, plain):
    assert strip_controls(text) == plain


def test_a_text_with_lines_keeps_line_ends_and_tabs_only():
    assert strip_controls("one\r\n\ttwo\x1b[0m\u202e\x07\n", lines=True) == "one\n\ttwo\n"


@given(st.text())
def test_nothing_that_controls_is_left_and_a_second_time_changes_nothing(text):
    plain = strip_controls(text)
    assert strip_controls(plain) == plain
    assert len(plain.splitlines()) <= 1
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in plain)
    assert not set(plain) & set(BIDIRECTIONAL)


@pytest.mark.parametrize("space", [" ", "\t", "\u00a0", "\u3000", " \u200b"])
def test_options_are_divided_at_each_kind_of_space_outside_of_quotation_marks(space):
    line = f"--gpus{space}1{space}--name 'a{space}b' --returns=x"
    assert split_options(line) == ["--gpus", "1", "--name", f"a{space}b", "--returns=x"]


def test_options_with_an_open_quotation_mark_are_refused():
    with pytest.raises(ValueError, match="No closing quotation"):
        split_options("--name 'digits")


def test_two_long_texts_that_differ_at_their_ends_remain_different_when_they_are_shortened():
    one, other = (f"{'a-long-name-of-a-notebook-' * 8}{end}" for end in ("train", "test"))
    assert len(shorten(one)) == 100
    assert shorten(one).startswith("a-long-name")
    assert shorten(one).endswith("notebook-train")
    assert shorten(one) != shorten(other)
    assert quoted(one) != quoted(other)
    assert shorten("x" * 100) == "x" * 100


@pytest.mark.parametrize("count", [1, 50, 99, 100, 500])
@pytest.mark.parametrize("said", ["", "lr=0.1", "lr=0.25, " * 6 + "seed=7", "x" * 300 + "seed=7"])
def test_the_name_of_one_of_many_jobs_keeps_what_tells_it_from_the_others(count, said):
    name = join_name("n" * count, said, 100)
    assert len(name) <= 100
    assert name.endswith(said[-30:])
    if len(said) <= 60:
        assert name == f"{'n' * count} {said}".strip() or said in name

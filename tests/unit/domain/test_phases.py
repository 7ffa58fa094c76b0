"""Beside the word of a state, the sentence of a job does not say the word again."""

import json
from pathlib import Path

import pytest

from jupyter_gq.domain.phases import omit_state

#: Sentences, words of states and the sentences without them; `labextension/src/__tests__/sentences.spec.ts` reads them.
CASES: list[tuple[str, str, str]] = json.loads(
    (Path(__file__).parents[2] / "data" / "sentences.json").read_text("utf-8")
)


@pytest.mark.parametrize(("sentence", "word", "expected"), CASES)
def test_the_word_of_a_state_is_left_out_as_in_the_lab(sentence, word, expected):
    assert omit_state(sentence, word.lower()) == expected

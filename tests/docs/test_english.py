"""The crudest rules of English for pages; readers judge the rest."""

import re

import pytest

from .pages import PAGES, prose, relative

#: Words in one sentence. Most sentences have 25 at most.
LONGEST = 55
#: Pronouns that pages use for nobody and nothing: people are "they".
PRONOUNS = re.compile(r"\b(he|him|his|himself|whoever|whomever)\b", re.IGNORECASE)


def sentences(page):
    """Yield the sentences of a page; tables, headings and code are left out."""
    text = "\n".join(line for line in prose(page).splitlines() if not line.startswith(("|", "#", "    ")))
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "X", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[*-]|\d+\.) ", text):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_people_are_they(page):
    assert [line for line in prose(page).splitlines() if PRONOUNS.search(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_sentences_are_short_enough_to_read(page):
    assert [sentence for sentence in sentences(page) if len(sentence.split()) > LONGEST] == []

"""Each decision has a complete head, names its relations on both pages, and says what would prove it wrong."""

import re
from functools import cache

import pytest

from docs.decision_index import DECISIONS, RELATIONS, read_decisions

from .pages import ROOT

ALL = read_decisions()
BY_FILE = {decision.file: decision for decision in ALL}
EACH = pytest.mark.parametrize("decision", ALL, ids=lambda decision: decision.file)


def test_each_page_has_a_number_of_its_own():
    assert sorted(path.name for path in DECISIONS.glob("*.md")) == [*sorted(BY_FILE), "index.md"]
    assert len({decision.number for decision in ALL}) == len(ALL)


@EACH
def test_the_head_of_a_decision_is_complete(decision):
    assert decision.file.startswith(f"{decision.number:04d}-")
    assert re.fullmatch(r"\d{4}-\d{2}", decision.date)
    assert decision.rooms
    for room in decision.rooms:
        assert (ROOT / room).is_dir() or (ROOT / "jupyter_gq" / room).is_dir(), f"{room} is no room"


@EACH
def test_related_decisions_name_each_other(decision):
    for relation, files in decision.related.items():
        for file in files:
            assert decision.file in BY_FILE[file].related.get(RELATIONS[relation], ()), f"{file} does not say so"
    assert (decision.status == "superseded") == ("Superseded by" in decision.related)


#: Files in which code, templates and images say what they follow from.
CODE = (".py", ".ts", ".tsx", ".yaml", ".tpl", ".txt", ".Dockerfile")


@cache
def cited_from(room):
    """Return the files of decisions that the code of a room cites."""
    base = ROOT / room if (ROOT / room).is_dir() else ROOT / "jupyter_gq" / room
    files = (path for path in base.rglob("*") if path.name.endswith(CODE) and "node_modules" not in path.parts)
    return {cited for path in files for cited in re.findall(r"docs/decisions/([\w.-]+\.md)", path.read_text())}


@EACH
def test_the_code_that_follows_from_a_decision_cites_it(decision):
    """In one of the rooms that the page names, so that a reader of the code finds the reason."""
    if decision.status == "accepted":
        assert any(decision.file in cited_from(room) for room in decision.rooms), "no code of its rooms cites it"


@EACH
def test_a_decision_says_what_would_prove_it_wrong(decision):
    assert "**Wrong if**" in (DECISIONS / decision.file).read_text()

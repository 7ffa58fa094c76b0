"""The documentation agrees with the code."""

import re
from pathlib import Path

import pytest

from docs.generate import configurable, own_traits, pages

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path):
    assert path.exists(), "run: make docs"
    assert path.read_text() == pages()[path], "run: make docs"


@pytest.mark.parametrize("cls", configurable(), ids=lambda cls: cls.__name__)
def test_every_setting_says_what_it_does(cls):
    for name, trait in own_traits(cls).items():
        assert len(str(trait.help)) > 20, f"c.{cls.__name__}.{name} has no help text"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_each_decision_says_what_would_prove_it_wrong():
    for page in (ROOT / "docs/decisions").glob("*.md"):
        assert "**Wrong if**" in page.read_text(), page.name

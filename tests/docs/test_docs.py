"""The documentation agrees with the code."""

import re

import pytest

from docs.generate import configurable, own_traits, pages

from .pages import PAGES, ROOT


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path):
    assert path.exists(), "run: make docs"
    assert path.read_text() == pages()[path], "run: make docs"


@pytest.mark.parametrize("cls", configurable(), ids=lambda cls: cls.__name__)
def test_every_setting_says_what_it_does(cls):
    for name, trait in own_traits(cls).items():
        assert len(str(trait.help)) > 20, f"c.{cls.__name__}.{name} has no help text"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_row_is_cut_off_from_its_table(page):
    """After an empty line a row is text with bars, unless a table begins there."""
    lines = ["", *page.read_text().splitlines(), ""]
    for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False), 1):
        if line.startswith("|") and not before.startswith("|"):
            assert re.match(r"\|[ :]*-", after), f"{page.name}:{number} is a row of no table"


def test_the_page_on_prometheus_names_every_figure_that_there_is():
    page = (ROOT / "docs/how-to/watch-with-prometheus.md").read_text()
    told = set(re.findall(r"jupyter_gq_\w+", page))
    assert told == set(re.findall(r'"(jupyter_gq_\w+)"', (ROOT / "jupyter_gq/api/metrics.py").read_text()))


def quoted_sentences():
    """What stands in quotes in the tables of the page on troubleshooting."""
    page = (ROOT / "docs/how-to/troubleshoot-kubernetes.md").read_text()
    return re.findall(r'"([^"\n]+)"', "\n".join(line for line in page.splitlines() if line.startswith("|")))


@pytest.mark.parametrize("sentence", quoted_sentences())
def test_the_sentences_of_the_troubleshooting_page_are_those_of_the_product(sentence):
    parts = [part.strip(" .:,;()") for part in sentence.split("…")]
    assert any(len(part) >= 8 for part in parts)
    for part in parts:
        assert part in SAID, f"nothing says {part!r}"


#: All code as one text, with texts that go on in the next line joined.
SAID = re.sub(r'"\s*\n\s*f?"', "", "".join(path.read_text() for path in sorted((ROOT / "jupyter_gq").rglob("*.py"))))

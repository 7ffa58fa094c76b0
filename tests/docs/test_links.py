"""Each link of a page leads to a file and a heading that exist. Links to other hosts are not fetched."""

import re

import pytest

from .pages import PAGES, ROOT, anchors, prose, relative


def links(page):
    """Yield file and anchor of each link of a page that stays in the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path if path else page), anchor


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_to_files_and_headings_that_exist(page):
    for target, path, anchor in links(page):
        assert path.exists(), f"{page.name} links to {target}, which does not exist"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}, and no such heading exists"


def test_each_picture_is_used_by_a_page():
    used = {path.resolve() for page in PAGES for _, path, _ in links(page)}
    assert [path.name for path in (ROOT / "docs/images").iterdir() if path.resolve() not in used] == []

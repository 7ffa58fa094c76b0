"""The pages that people read, as the tests of this folder look at them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The pages of folders that the site leaves out.
_OF_FOLDERS = [ROOT / "changes/README.md", ROOT / "tests/kubernetes/README.md"]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *_OF_FOLDERS])


def relative(page):
    """Return the path of a page from the root of the repository, as an id of a test."""
    return str(page.relative_to(ROOT))


def prose(page):
    """Return the text of a page without its fenced blocks."""
    return re.sub(r"^( *)(```|~~~).*?^\1\2 *$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """Return the anchors of the headings of a page, as GitHub and the site make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        repeated = sum(slug == other or re.fullmatch(rf"{re.escape(slug)}-\d+", other) is not None for other in found)
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return found

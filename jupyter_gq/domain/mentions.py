"""Names of users and of their work in sentences, marked so that readers see only the names that they may see.

Rules
-----
Marks: a mention stands between noncharacters of Unicode. No text from outside has any (see `plain_text`).

One sentence for all readers: a sentence is written and stored once, with its mentions. Each way out of the program
renders them: `controller.views.mentions` for answers and events, `reveal` for logs and for commands of administrators.

See docs/decisions/0083-mark-names-in-sentences.md.
"""

import re
from collections.abc import Callable

_OPEN, _NEXT, _CLOSE = "\ufdd0", "\ufdd1", "\ufdd2"
_PART = f"([^{_OPEN}{_NEXT}{_CLOSE}]*)"
_MENTION = re.compile(f"{_OPEN}{_PART}{_NEXT}{_PART}{_NEXT}{_PART}{_CLOSE}")


def mention(owner: str, name: str, neutral: str) -> str:
    """Return the marked `name`, which belongs to the user `owner`; `neutral` are the words for other readers."""
    return f"{_OPEN}{owner}{_NEXT}{neutral}{_NEXT}{name}{_CLOSE}"


def render(text: str, may_see: Callable[[str], bool]) -> str:
    """Return the text with the name of each mention, or the neutral words if `may_see(owner)` is false."""
    if _OPEN not in text:
        return text
    return _MENTION.sub(lambda found: found[3] if may_see(found[1]) else found[2], text)


def reveal(text: str) -> str:
    """Return the text with all names, for administrators."""
    return render(text, lambda _: True)

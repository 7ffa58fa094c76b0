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
_MENTION = re.compile(f"{_OPEN}{_PART}{_NEXT}{_PART}{_NEXT}{_PART}(?:{_NEXT}{_PART})?{_CLOSE}")


def mention(owner: str, name: str, neutral: str, own: str = "") -> str:
    """Return the marked `name`, which belongs to the user `owner`.

    `neutral` are the words for readers who may not see the name, and `own` those for the owner; "" = the name.
    """
    words = f"{neutral}{_NEXT}{name}"
    return f"{_OPEN}{owner}{_NEXT}{words}{_NEXT}{own}{_CLOSE}" if own else f"{_OPEN}{owner}{_NEXT}{words}{_CLOSE}"


def render(text: str, may_see: Callable[[str], bool], is_own: Callable[[str], bool] = lambda _: False) -> str:
    """Return the text with the words of each mention for one reader.

    The words are the name, the neutral ones if `may_see(owner)` is false, or the owner's if `is_own(owner)` is true.
    """
    if _OPEN not in text:
        return text

    def choose(found: re.Match[str]) -> str:
        if found[4] and is_own(found[1]):
            return found[4]
        return found[3] if may_see(found[1]) else found[2]

    return _MENTION.sub(choose, text)


def reveal(text: str) -> str:
    """Return the text with all names, for administrators."""
    return render(text, lambda _: True)

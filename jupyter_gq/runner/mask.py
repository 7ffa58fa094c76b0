"""The mask over the values of a job's secrets: outputs, results and logs show `***` in their place. Pure.

Rules
-----
- Literally: a value is hidden where it stands as it is. Code that encodes or cuts it defeats the mask.
- Long enough: values of fewer than `SHORTEST` characters are not hidden, since they would hide ordinary words. Of a
  value of several lines, each line of `SHORTEST_LINE` characters is hidden as well.
- Across messages: text of a stream that ends with the beginning of a value is held back until more text comes, or the
  cell ends.
"""

from collections.abc import Iterable
from typing import AnyStr

from jupyter_gq.domain.json_types import JsonValue

HIDDEN = "***"
#: Fewest characters of a value, and of one of its lines.
SHORTEST, SHORTEST_LINE = 6, 16


class Mask:
    """The values that must not be shown."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        hidden = set()
        for value in values:
            whole = value.strip()
            hidden |= {whole} if len(whole) >= SHORTEST else set()
            hidden |= {line.strip() for line in whole.splitlines() if len(line.strip()) >= SHORTEST_LINE}
        #: Longest first: a value that contains another is hidden as a whole.
        self._values = sorted(hidden, key=lambda value: (-len(value), value))

    @property
    def longest(self) -> int:
        """The most characters of a value; 0 without values."""
        return max(map(len, self._values), default=0)

    def hide(self, text: str) -> str:
        """Return the text with each value replaced."""
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text

    def hide_bytes(self, content: bytes) -> bytes:
        """Return the content with each value replaced, as UTF-8."""
        for value in self._values:
            content = content.replace(value.encode(), HIDDEN.encode())
        return content

    def hide_all(self, value: JsonValue) -> JsonValue:
        """Return JSON data with each value replaced in all texts; the names of objects are texts too.

        Raises `RecursionError` for data that is nested too deeply.
        """
        if not self._values:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_all(each) for each in value]
        if isinstance(value, dict):
            return {self.hide(str(name)): self.hide_all(each) for name, each in value.items()}
        return value

    def split(self, text: str) -> tuple[str, str]:
        """Return a text with each value replaced, in two parts: what can be shown now, and what is to be held back.

        The second part is an end of the text with which a value begins: the next text may complete that value. Put it
        before the next text. The second part is mostly empty.
        """
        text = self.hide(text)
        kept = max((_measure_beginning(text, value) for value in self._values), default=0)
        return text[: len(text) - kept], text[len(text) - kept :]

    def split_bytes(self, content: bytes) -> tuple[bytes, bytes]:
        """Return UTF-8 content with each value replaced, in two parts: what can be shown, and what is to be held back.

        See `split`, which does the same for text.
        """
        content = self.hide_bytes(content)
        kept = max((_measure_beginning(content, value.encode()) for value in self._values), default=0)
        return content[: len(content) - kept], content[len(content) - kept :]


def _measure_beginning(text: AnyStr, value: AnyStr) -> int:
    """Return the length of the longest end of `text` with which `value` begins."""
    place = text.find(value[:1], max(0, len(text) - len(value) + 1))
    while place >= 0:
        if value.startswith(text[place:]):
            return len(text) - place
        place = text.find(value[:1], place + 1)
    return 0

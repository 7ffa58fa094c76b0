"""A table for notebooks: HTML where it can be shown, aligned text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


class Table:
    """Rows of texts and numbers below a header."""

    def __init__(self, header: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "") -> None:
        """Make a table; without rows it is shown as the sentence `empty`."""
        self.header, self.rows, self._empty = list(header), [list(row) for row in rows], empty

    def __repr__(self) -> str:
        if not self.rows:
            return self._empty
        lines = [self.header, *([_text(value) for value in row] for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()  # noqa: B905 - Python 3.8 too
            for line in lines
        )

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self._empty)}</p>"
        head = "".join(f"<th>{escape(text)}</th>" for text in self.header)
        body = "".join(f"<tr>{''.join(map(_make_cell, range(len(row)), row))}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _make_cell(column: int, value: object) -> str:
    """Return a value as a cell of HTML; the first column, with the names of the rows, is not broken into lines."""
    style = "" if column else ' style="white-space: nowrap"'
    return f"<td{style}>{escape(_text(value))}</td>"


def _text(value: object) -> str:
    """Return a value as text of one line: numbers with at most six digits, nothing for None."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.split())

"""Tables and durations in the text that commands print."""

from collections.abc import Collection, Iterable, Sequence
from math import ceil, inf

from jupyter_gq.domain.plain_text import strip_controls

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
#: Seconds to which an estimate of at most so many seconds is rounded up.
_STEPS = (
    (10 * _MINUTE, _MINUTE),
    (_HOUR, 5 * _MINUTE),
    (4 * _HOUR, 30 * _MINUTE),
    (_DAY, _HOUR),
    (inf, _DAY),
)


def format_table(rows: Sequence[Sequence[str]], right: Collection[int] = (), *, width: int | None = None) -> list[str]:
    """Return the rows as lines of aligned columns; the columns with the numbers `right` are flush right.

    Control characters in cells are left out. Lines longer than `width` characters are cut, and end with "…".
    """
    clean = [[strip_controls(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in clean) for column in range(len(clean[0]))]
    lines = [
        "  ".join(
            cell.rjust(size) if column in right else cell.ljust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in clean
    ]
    return lines if width is None else cut_lines(lines, width)


def cut_lines(lines: Iterable[str], width: int) -> list[str]:
    """Return the lines, each with at most `width` characters; a shortened line ends with "…"."""
    return [line if len(line) <= width else line[: max(0, width - 1)] + "…" for line in lines]


def format_percent(fraction: float) -> str:
    """Return a part of a whole in percent, such as "37 %"."""
    return f"{100 * fraction:.0f} %"


def format_duration(seconds: float) -> str:
    """Return a duration in words, such as "90 s", "150 min", "3.5 h", "3.0 days".

    The unit is seconds below 5 minutes, minutes below 3 hours, hours below 2 days, and days from there on.
    """
    for most, unit, name in ((5 * _MINUTE, 1, "s"), (3 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h")):
        if seconds < most:
            return f"{seconds / unit:.{1 if unit > 1 and seconds < 10 * unit else 0}f} {name}"
    return f"{seconds / _DAY:.1f} days"


def format_estimate(seconds: float) -> str:
    """Return an estimated duration, rounded up so that it does not promise too much: "1 min", "15 min", "2 h 30 min".

    The lab rounds in the same steps.
    """
    step = next(step for most, step in _STEPS if seconds <= most)
    minutes = max(1, ceil(seconds / step)) * step // _MINUTE
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)

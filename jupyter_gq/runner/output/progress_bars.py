"""The progress that the bars in the output of a cell show. Pure.

Understood are the bars of tqdm (as text and as widget), rich, Keras, the Trainer of transformers, fastprogress,
progressbar2, alive-progress and click, and of what builds on these, such as Lightning with either of its bars. The
formats are those that the libraries print by default; the words before a bar may hold anything.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape

from jupyter_gq.domain.plain_text import strip_controls

from .cell_output import Output

#: The last outputs of a cell and their last characters are searched for bars.
_MOST_OUTPUTS = 200
_MOST_TEXT = 64 * 1024
_LONGEST_LINE = 500
_LONGEST_TEXT = 200

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_CURSOR_UP = "\x1b[A"
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_COUNT = rf"(?P<done>{_NUMBER})(?P<unit>[kMGT]?)/(?P<total>{_NUMBER})(?P<units>[kMGT]?)(?![0-9])"
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PERCENT = r"(?<![0-9.-])(?P<percent>[0-9]{1,3}(?:\.[0-9]{1,6})?)%"
#: What tqdm draws between two vertical lines: blocks, or in ASCII number signs and one digit.
_DRAWN = r"(?:[█▏▎▍▌▋▊▉]+ *|#+[0-9]? *|[0-9]? {5,})"
#: What alive-progress draws between its bar and the counts.
_SPINNER = r"(?:[^\w\s|(]{1,12}\s+)?"
#: Each bar has one of these characters.
_PART_OF_BAR = re.compile(r"[|━╸╺\]]|-{10}")
#: One bar in a line: words before it, and its percentage or its counts, such as 37/100.
_BARS = [
    # tqdm, such as "train:  37%|███▋      | 37/100 [00:12<00:20,  3.05it/s]", also without a percentage
    re.compile(rf"(?P<before>.*?){_PERCENT}\s*\|{_DRAWN}\|\s*(?:{_COUNT})?(?P<after>.*)"),
    # alive-progress, such as "on 3: |███████▎  | ▅▃▁ 37/100 [37%] in 2s (~3s, 14.2/s)"
    re.compile(rf"(?P<before>[^|%]*?)\|{_DRAWN}\|\s*{_SPINNER}{_COUNT}(?P<after>.*)"),
    # progressbar2, such as "37% (37 of 100) |#####      | Elapsed Time: 0:00:12 ETA:   0:00:20"
    re.compile(rf"(?P<before>.*?){_PERCENT} \([^()|]{{1,50}}\) \|{_DRAWN}\|(?P<after>.*)"),
    # rich, such as "Working... ━━━━━━━━━━━╸━━━━━━━━  40% 0:00:05"
    re.compile(rf"(?P<before>[^━╸╺]*)[━╸╺]+\s+{_PERCENT}(?P<after>.*)"),
    # rich with counts, as Lightning has it, such as "Epoch 2/9 ━━━━━╸━━━━ 40/100 0:00:01 • 0:00:02 30.00it/s"
    re.compile(rf"(?P<before>[^━╸╺]*[^━╸╺\s0-9][^━╸╺]*|)[━╸╺]+\s+{_COUNT}(?P<after>.*)"),
    # click, such as "Reading  [####--------]   37%  00:00:05"
    re.compile(rf"(?P<before>.*?)\[#*-*\]\s+{_PERCENT}(?P<after>.*)"),
    # Keras, such as "37/100 ━━━━━━━━━━━━━━━━━━━━ 12s 3ms/step - loss: 0.3", in older versions with [====>...]
    re.compile(rf"(?P<before>){_COUNT} (?:━+|\[[=>.]+\])(?P<after>.*)"),
]
#: Keras prints the number of the epoch on a line of its own above the bar.
_EPOCH = re.compile(r"Epoch (?P<epoch>[0-9]{1,9})/(?P<epochs>[0-9]{1,9})")
#: The Trainer of transformers and fastprogress show an HTML element, and then the counts and the epoch in brackets.
_HTML_BAR = re.compile(
    r"<progress\s+value='(?P<done>[0-9]{1,12})'\s+(?:class='[^'<>]{0,100}'\s+)?max='(?P<total>[0-9]{1,12})'[^>]{0,200}>\s*</progress>"
    r"(?P<after>[^\]]{0,500})"
)
#: What fastprogress says before the counts.
_PERCENT_BEFORE = re.compile(r"[0-9.]{1,10}%\s+(?=\[)")


@dataclass(frozen=True, slots=True)
class _Bar:
    """A progress bar: the part that is done, from 0 to 1, and what else its line says."""

    fraction: float
    text: str


def find_progress(outputs: Sequence[Output]) -> tuple[float, str] | None:
    """Return (fraction, text) of the bar that says most about a running cell; None if its outputs show no bar.

    The last bars that stand together count, and of these the first that is not full: it is the outermost of nested
    loops. Full bars count only until something else is printed.
    """
    group: list[_Bar] = []
    printed_after = False
    for line, bar in _read_backwards(outputs):
        if bar is not None:
            group.append(bar)
        elif group:
            group[-1] = _add_epoch(group[-1], line)
            break
        else:
            printed_after = True
    unfinished = [bar for bar in group if bar.fraction < 1]
    if unfinished:
        return unfinished[-1].fraction, unfinished[-1].text
    return (group[0].fraction, group[0].text) if group and not printed_after else None


def _read_backwards(outputs: Sequence[Output]) -> Iterator[tuple[str, _Bar | None]]:
    """Yield the lines of the outputs from the last to the first, each with its bar, without empty ones.

    HTML with a bar is one line. At most `_MOST_TEXT` characters are read.
    """
    left = _MOST_TEXT
    for output in reversed(outputs[-_MOST_OUTPUTS:]):
        data = output.get("data", {})
        is_stream = output["output_type"] == "stream"
        text = str(output["text"] if is_stream else data.get("text/plain", ""))[-left:]
        html = "" if is_stream else str(data.get("text/html", ""))[:left]
        bar = _parse_html(html)
        if bar is not None:
            yield "", bar
        elif is_stream:
            yield from _read_stream_backwards(text)
        else:
            yield from ((line, _parse_bar(line)) for line in reversed(text.splitlines()) if line.strip())
        left -= max(len(text), len(html), 1)
        if left <= 0:
            return


def _read_stream_backwards(text: str) -> Iterator[tuple[str, _Bar | None]]:
    """Yield the lines of a stream from the last to the first, without empty ones and without outdated bars.

    A nested bar of tqdm ends by moving the cursor up, so the last bar that does not is the outermost; it replaces the
    bars above it, and those within it are left out.
    """
    has_bar = False
    for line in reversed(text.split("\n")):
        line = line.rpartition("\r")[2]
        bar = _parse_bar(line)
        if not line.strip() or (bar is not None and (has_bar or line.rstrip().endswith(_CURSOR_UP))):
            continue
        has_bar = bar is not None
        yield line, bar


def _parse_html(text: str) -> _Bar | None:
    """Return the bar in HTML; None if there is none."""
    found = _HTML_BAR.search(text)
    if found is None:
        return None
    said = _PERCENT_BEFORE.sub("", unescape(found["after"]).strip())
    return _Bar(_divide(float(found["done"]), float(found["total"])), _clean(said.strip(" \n[]")))


def _parse_bar(line: str) -> _Bar | None:
    """Return the bar in a line of text; None if there is none."""
    if not _PART_OF_BAR.search(line):
        return None
    plain = _STYLE.sub("", line[:_LONGEST_LINE]).strip()
    for pattern in _BARS:
        found = pattern.fullmatch(plain)
        if found is not None:
            parts = found.groupdict()
            if parts.get("total") is None:
                return _Bar(min(1.0, float(parts["percent"]) / 100), _clean(f"{parts['before']} {parts['after']}"))
            done = float(parts["done"]) * _UNITS[parts["unit"]]
            total = float(parts["total"]) * _UNITS[parts["units"]]
            counts = f"{parts['done']}{parts['unit']}/{parts['total']}{parts['units']}"
            return _Bar(_divide(done, total), _clean(f"{parts['before']} {counts}{parts['after']}"))
    return None


def _add_epoch(bar: _Bar, line: str) -> _Bar:
    """Return the progress over all epochs if the line above a bar names the epoch that the bar stands for."""
    found = _EPOCH.fullmatch(_STYLE.sub("", line[:_LONGEST_LINE]).strip())
    if found is None or not 1 <= int(found["epoch"]) <= int(found["epochs"]):
        return bar
    fraction = (int(found["epoch"]) - 1 + bar.fraction) / int(found["epochs"])
    return replace(bar, fraction=fraction, text=f"{found[0]}: {bar.text}")


def _divide(done: float, total: float) -> float:
    """Return `done` divided by `total`, limited to 0 to 1; 0 for a total of 0."""
    return min(1.0, max(0.0, done / total)) if total > 0 else 0.0


def _clean(text: str) -> str:
    """Return the text with single spaces and without control characters, cut to the length that is shown."""
    return " ".join(strip_controls(text.replace(_CURSOR_UP, "")).split())[:_LONGEST_TEXT]

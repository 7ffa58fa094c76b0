"""The progress that the bars in the output of a cell show. Pure.

Understood are the bars of tqdm (as text and as widget), rich, Keras, the Trainer of transformers, fastprogress,
progressbar2, alive-progress and click, and of what builds on these, such as Lightning with either of its bars. The
formats are those that the libraries print by default; the words before a bar may hold anything.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape

from jupyter_gq.domain.plain_text import strip_controls

from .cell_output import Output
from .widgets import INTERRUPTED

#: The last outputs of a cell and their last characters are searched for bars.
_MOST_OUTPUTS = 200
_MOST_TEXT = 64 * 1024
_LONGEST_LINE = 500
_LONGEST_TEXT = 200

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_INTERRUPTED = f"{INTERRUPTED}|"
_NOTHING_OF_RICH = re.compile(r"<pre [^<>]{1,300}></pre>\s*")
_CURSOR_UP = "\x1b[A"
_DIGITS = re.compile(r"[0-9.]+")
#: The rest of a movement of the cursor that another bar has overwritten in part.
_LEFT_OVER = re.compile(r"(?<=\])\[?A$")
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_COUNT = rf"(?P<done>{_NUMBER})(?P<unit>[kMGT]?)/(?P<total>{_NUMBER})(?P<units>[kMGT]?)(?![0-9])"
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PERCENT = r"(?<![0-9.-])(?P<percent>[0-9]{1,3}(?:\.[0-9]{1,6})?)%"
#: What tqdm draws between two vertical lines: blocks, or in ASCII number signs and one digit.
#: The view of a widget whose work has ended before it was full has a mark behind them.
_DRAWN = r"(?:[█▏▎▍▌▋▊▉]+ *|#+[0-9]? *|[0-9]? {5,}| *(?=✗))✗?"
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
    r"<progress\s(?P<attributes>[^<>]{1,300})>\s*</progress>(?P<after>(?:[^\]<]|<(?![A-Za-z/])){0,500})"
)
_ATTRIBUTE = re.compile(r"""(?<![\w-])(?P<name>value|max)=["'](?P<number>[0-9]{1,12}(?:\.[0-9]{1,6})?)["']""")
#: What the Trainer of transformers says while it knows no times.
_NO_TIMES = " : < :"
#: What fastprogress says before the counts.
_PERCENT_BEFORE = re.compile(r"[0-9.]{1,10}%\s+(?=\[)")


@dataclass(frozen=True, slots=True)
class _Bar:
    """A progress bar: the part that is done, from 0 to 1, and what else its line says."""

    fraction: float
    text: str
    #: What its line says before the bar and as its total, without what changes while it runs.
    name: str = ""
    #: Whether its work has ended before the bar was full.
    is_over: bool = False
    #: Whether a display shows the bar, which changes there, whatever was printed after it.
    is_display: bool = False


def find_progress(outputs: Sequence[Output]) -> tuple[float, str] | None:
    """Return (fraction, text) of the bar that says most about a running cell; None if its outputs show no bar.

    The last bars that stand together count, and displays above them, and of these the first that is not full: it is
    the outermost of nested loops. Full bars, and bars whose work has ended, count only until something else is printed.
    """
    group: list[_Bar] = []
    is_apart = printed_after = False
    for line, bar in _read_backwards(outputs):
        if bar is not None:
            group += [bar] if bar.is_display or not is_apart else []
        elif not group:
            printed_after = True
        elif not is_apart:
            group[-1] = _add_epoch(group[-1], line)
            is_apart = True
    unfinished = [bar for bar in group if bar.fraction < 1 and not bar.is_over]
    if unfinished:
        return unfinished[-1].fraction, unfinished[-1].text
    return (group[0].fraction, group[0].text) if group and not printed_after else None


def _read_backwards(outputs: Sequence[Output]) -> Iterator[tuple[str, _Bar | None]]:
    """Yield the lines of the outputs from the last to the first, each with its bar, without empty ones.

    HTML with a bar is one line. At most `_MOST_TEXT` characters are read.
    """
    left = _MOST_TEXT
    is_over = False
    for output in reversed(outputs[-_MOST_OUTPUTS:]):
        is_stream = output["output_type"] == "stream"
        data = {} if is_stream else output.get("data", {})
        text = str(output["text"] if is_stream else data.get("text/plain", ""))[-left:]
        html = str(data.get("text/html", ""))[:left]
        lines = list(_read_stream_backwards(text) if is_stream else _read_display(text, html, output["output_type"]))
        for line, bar in lines:
            yield line, bar if bar is None or is_stream else replace(bar, is_over=bar.is_over or is_over)
        # rich shows nothing once more after the last state of its bars.
        is_over = _NOTHING_OF_RICH.fullmatch(html) is not None or (is_over and not any(bar for _, bar in lines))
        left -= max(len(text), len(html), 1)
        if left <= 0:
            return


def _read_display(text: str, html: str, kind: str) -> Iterator[tuple[str, _Bar | None]]:
    """Yield the lines of a display from the last to the first, without empty ones; `kind` is the type of the output."""
    bar = _parse_html(html)
    lines = [line for line in reversed(text.splitlines()) if line.strip()]
    for line, each in [("", bar)] if bar else [(line, _parse_bar(line)) for line in lines]:
        if each is not None:
            yield line, replace(each, is_display=True)
        elif kind != "execute_result":
            # The value of the last statement, such as the history of a training of Keras, hides no bar.
            yield line, None


def _read_stream_backwards(text: str) -> Iterator[tuple[str, _Bar | None]]:
    """Yield the lines of a stream from the last to the first, without empty ones; nested bars are one line."""
    nested: list[tuple[str, _Bar]] = []
    for line in reversed(text.split("\n")):
        line = line.rpartition("\r")[2]
        bar = _parse_bar(line)
        if bar is not None:
            nested.append((line, bar))
        elif line.replace(_CURSOR_UP, "").strip():
            yield from _find_outermost(nested)
            nested = []
            yield line, None
    yield from _find_outermost(nested)


def _find_outermost(nested: Sequence[tuple[str, _Bar]]) -> Iterator[tuple[str, _Bar]]:
    """Yield the newest state of the outermost bar, if there is one; `nested` are lines with bars, the last line first.

    tqdm moves the cursor up after each line of an inner bar, and the outermost bar then overwrites its own line. A
    stream has no cursor: there the new state is one more line. Where an inner bar was removed, the outermost bar
    overwrites a line of spaces instead, whose movement stays at the end. So such a line is known by its name only, as
    is that of an inner bar whose movement was not sent yet.
    """
    names = [bar.name for _, bar in nested]
    is_inner = [line.rstrip().endswith(_CURSOR_UP) for line, _ in nested]
    inner = {name for name, each in zip(names, is_inner, strict=True) if each}
    places = [at for at, each in enumerate(is_inner) if not each]
    if len(places) > 1 and places[0] == 0 and (names[0] in inner or _is_inside(nested[0][1], nested[1][1])):
        places = places[1:]
    for at in places[:1]:
        is_unnamed = at > 0 and names[at - 1] == names[at]
        yield nested[at if is_unnamed else names.index(names[at])]


def _is_inside(bar: _Bar, above: _Bar) -> bool:
    """Return whether a bar that has just begun may be within the bar above, which is not full yet."""
    return bar.fraction == 0 and above.fraction < 1


def _parse_html(text: str) -> _Bar | None:
    """Return the bar in HTML; None if there is none."""
    found = _HTML_BAR.search(text)
    if found is None:
        return None
    numbers = {each["name"]: float(each["number"]) for each in _ATTRIBUTE.finditer(found["attributes"])}
    if len(numbers) < 2:
        return None
    said = _PERCENT_BEFORE.sub("", unescape(found["after"]).replace(_NO_TIMES, "").strip())
    is_over = "interrupted" in found["attributes"]
    return _Bar(_divide(numbers["value"], numbers["max"]), _clean(said.strip(" \n[]")), is_over=is_over)


def _parse_bar(line: str) -> _Bar | None:
    """Return the bar in a line of text; None if there is none."""
    if not _PART_OF_BAR.search(line):
        return None
    plain = _STYLE.sub("", line[:_LONGEST_LINE]).strip()
    for pattern in _BARS:
        found = pattern.fullmatch(plain)
        if found is not None:
            return replace(_read_parts(found.groupdict()), is_over=_INTERRUPTED in plain)
    return None


def _read_parts(parts: Mapping[str, str | None]) -> _Bar:
    """Return the bar whose line has these parts, by the names of the groups in `_BARS`."""
    before, after = parts["before"] or "", _LEFT_OVER.sub("", parts["after"] or "")
    name = _clean(_DIGITS.sub("", before))
    if parts.get("total") is None:
        return _Bar(min(1.0, float(parts["percent"] or 0) / 100), _clean(f"{before} {after}"), name)
    done, total = f"{parts['done']}{parts['unit']}", f"{parts['total']}{parts['units']}"
    fraction = _divide(_read_count(done), _read_count(total))
    return _Bar(fraction, _clean(f"{before} {done}/{total}{after}"), f"{name}/{total}")


def _read_count(count: str) -> float:
    """Return a count such as "1.2k" as a number."""
    number = count.rstrip("kMGT")
    return float(number) * _UNITS[count[len(number) :]]


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

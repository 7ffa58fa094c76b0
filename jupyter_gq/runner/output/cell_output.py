"""The outputs of one cell as they stand, and the pieces that say how they changed. Pure.

Rules
-----
1. Folding the pieces (`client.outputs.fold`) gives the outputs that stand here; `pieces` may be put off, not lost.
2. Pieces that later ones make pointless are never made: text of one stream is joined, of several updates of one
   display the last counts, a clear forgets what came before it.
3. What was said adds up to a few times what the cell shows: then all of it is said anew, in one piece (`set`) that lets
   the service forget those before it. A progress bar that is drawn for days takes no more room than its last line.
4. A cell keeps the last of its text and of its displays within bounds; the first output then says what was left out.
   Once all cells of the job hold `Bounds.job`, a notice stands in the place of each further display.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from jupyter_gq.client.outputs import collapse

#: A display up to this size takes no more room than the notice that would stand in its place.
_SMALL = 1024

Output = dict[str, Any]
Piece = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """How much of a cell's output is kept, in characters of JSON or text."""

    #: Text of a cell beyond this is cut...
    text: int = 1024 * 1024
    #: ...to this.
    text_kept: int = 512 * 1024
    #: Displays (images, HTML) of a cell beyond this are cut...
    rich: int = 24 * 1024 * 1024
    #: ...to this.
    rich_kept: int = 16 * 1024 * 1024
    #: A single display beyond this is replaced by a notice.
    single: int = 8 * 1024 * 1024
    #: Outputs of a cell; beyond it the older half goes.
    count: int = 2000
    #: All outputs of a job beyond this: its further displays are replaced by a notice.
    job: int = 128 * 1024 * 1024
    #: Pieces of a cell beyond this, and beyond twice what it shows, are replaced by one.
    said: int = 1024 * 1024


class Entry:
    """One output. Its place may change; the entry stays the same."""

    __slots__ = ("output", "size")

    def __init__(self, output: Output) -> None:
        self.replace(output)

    def replace(self, output: Output) -> None:
        """Another content in the same place."""
        self.output: Output = output
        self.size: int = len(output["text"]) if self.is_stream else size_of(output)

    @property
    def is_stream(self) -> bool:
        """Text of a stream, which may continue."""
        return bool(self.output["output_type"] == "stream")


class CellOutput:
    """What one cell shows."""

    def __init__(self, cell: str, role: str, bounds: Bounds) -> None:
        self._about = {"cell": cell, "role": role}
        self._bounds = bounds
        self.entries: list[Entry] = []
        self._stream: tuple[str, list[str]] | None = None
        self._pieces: list[Piece] = []
        #: For each entry that changed since `take`, by its identity: the piece that carries its content.
        self._carrier: dict[int, Piece] = {}
        #: What stood in the last stream before its waiting piece.
        self._text_before = ""
        #: The outputs of the whole job have reached their bound.
        self.job_is_full = False
        self._start_anew = False
        #: Bytes of the pieces that were taken since the last `set`.
        self._said = 0
        self._left_out_text = 0
        self._left_out_displays = 0

    @property
    def outputs(self) -> list[Output]:
        """As a notebook would hold them, a notice first if something was left out."""
        self._close_stream()
        return [*self._notice(), *(entry.output for entry in self.entries)]

    @property
    def size(self) -> int:
        """About how many bytes the outputs take."""
        return sum(entry.size for entry in self.entries)

    def restore(self, outputs: Iterable[Output]) -> None:
        """What an earlier run left here; the next pieces say it again, so that both sides agree."""
        self.entries = [Entry(output) for output in outputs]
        self._start_anew = True

    def write(self, name: str, text: str) -> None:
        """More text of a stream."""
        if self._stream is None or self._stream[0] != name:
            self._close_stream()
            self._stream = (name, [])
        self._stream[1].append(text)

    def show(self, output: Output) -> Entry:
        """One more output that is not of a stream."""
        self._close_stream()
        entry = Entry(self._shrink(output))
        self.entries.append(entry)
        self._add_piece({"op": "append", **self._about, "output": entry.output}, entry)
        self._cut()
        return entry

    def update(self, entry: Entry, output: Output) -> None:
        """A display got another content; nothing happens when it is no longer here."""
        self._close_stream()
        index = next((i for i, known in enumerate(self.entries) if known is entry), None)
        if index is None:
            return
        entry.replace(self._shrink(output))
        if id(entry) in self._carrier:
            self._carrier[id(entry)]["output"] = entry.output
        else:
            place = index + len(self._notice())
            piece = {"op": "replace", **self._about, "index": place, "output": entry.output}
            self._add_piece(piece, entry)
        self._cut()

    def clear(self) -> None:
        """Nothing is shown."""
        self._stream = None
        self.entries = []
        self._left_out_text = self._left_out_displays = 0
        self._start_anew = False
        self._forget_pieces()
        self._pieces.append({"op": "clear", **self._about})

    @property
    def waiting_size(self) -> int:
        """About how many bytes `take` would return now; 0: nothing changed."""
        self._close_stream()
        if not self._start_anew:
            size = sum(_piece_size(piece) for piece in self._pieces)
            whole = sum(entry.size for entry in self.entries) + 1000
            # Rule 2: when the changes have grown larger than the result, the result is sent.
            too_large = size > self._bounds.text and size > whole
            too_many = self._said + size > self._bounds.said + 2 * whole  # rule 3
            self._start_anew = size > 0 and (too_large or too_many)
            if not self._start_anew:
                return size
        return sum(entry.size for entry in self.entries) + 200

    def take(self) -> list[Piece]:
        """The pieces since the last call."""
        self._close_stream()
        whole: Piece = {"op": "set", **self._about, "outputs": self.outputs}
        pieces = [whole] if self._start_anew else list(self._pieces)
        self._said = 0 if self._start_anew else self._said + sum(_piece_size(piece) for piece in pieces)
        self._start_anew = False
        self._forget_pieces()
        return pieces

    def _forget_pieces(self) -> None:
        self._pieces = []
        self._carrier = {}

    def _add_piece(self, piece: Piece, entry: Entry) -> None:
        if not self._start_anew:  # else everything is said again anyway
            self._pieces.append(piece)
            self._carrier[id(entry)] = piece

    def _close_stream(self) -> None:
        """Turn the text that came since the last call into one change."""
        if self._stream is None:
            return
        name, parts = self._stream
        self._stream = None
        text = "".join(parts)
        last = self.entries[-1] if self.entries else None
        if last is None or not last.is_stream or last.output["name"] != name:
            last = Entry({"output_type": "stream", "name": name, "text": ""})
            self.entries.append(last)
        carrier = self._pieces[-1] if self._pieces else None
        if carrier is None or self._carrier.get(id(last)) is not carrier:
            self._text_before = last.output["text"]
            carrier = {"op": "append", **self._about, "output": {**last.output, "text": ""}}
            self._add_piece(carrier, last)
        # The text that stands here is made from the very piece that is sent: what it shows can depend on the cut.
        said = squeeze(carrier["output"]["text"] + text)
        carrier["output"] = {**carrier["output"], "text": said}
        last.replace({**last.output, "text": continued(self._text_before, said)})
        self._cut()

    def _shrink(self, output: Output) -> Output:
        """The output itself, or if it is too large what can be shown of it."""
        size = size_of(output)
        if output["output_type"] == "error":
            return output if size <= self._bounds.text_kept else _shorter_error(output, self._bounds.text_kept)
        if size > self._bounds.single:
            why = f"a job keeps single outputs up to {_amount(self._bounds.single)}"
        elif self.job_is_full and size > _SMALL:
            why = f"the outputs of this job have reached {_amount(self._bounds.job)}"
        else:
            return output
        kinds = ", ".join(sorted(output["data"]))
        return notice(f"One output of {_amount(size)} ({kinds}) was left out: {why}. Save it to a file instead.")

    def _cut(self) -> None:
        """Rule 4."""
        bounds = self._bounds
        text = sum(entry.size for entry in self.entries if entry.is_stream)
        rich = sum(entry.size for entry in self.entries if not entry.is_stream)
        if text > bounds.text:
            self._cut_text(text - bounds.text_kept)
        if rich > bounds.rich:
            self._cut_displays(rich - bounds.rich_kept)
        if len(self.entries) > bounds.count:
            self._drop(self.entries[: len(self.entries) - bounds.count // 2])

    def _cut_text(self, excess: int) -> None:
        """Leave out so much of the oldest text, at a line's end where one is near."""
        gone: list[Entry] = []
        for entry in [entry for entry in self.entries if entry.is_stream]:
            if excess < entry.size:
                text = entry.output["text"]
                line_end = text.find("\n", excess, excess + 4096)
                cut = excess if line_end < 0 else line_end + 1
                self._left_out_text += cut
                entry.replace({**entry.output, "text": text[cut:]})
                break
            excess -= entry.size
            gone.append(entry)
        self._drop(gone)

    def _cut_displays(self, excess: int) -> None:
        gone: list[Entry] = []
        for entry in [entry for entry in self.entries if not entry.is_stream]:
            if excess <= 0:
                break
            excess -= entry.size
            gone.append(entry)
        self._drop(gone)

    def _drop(self, gone: list[Entry]) -> None:
        for entry in gone:
            if entry.is_stream:
                self._left_out_text += entry.size
            else:
                self._left_out_displays += 1
        dropped = {id(entry) for entry in gone}
        self.entries = [entry for entry in self.entries if id(entry) not in dropped]
        self._start_anew = True
        self._forget_pieces()

    def _notice(self) -> list[Output]:
        parts = []
        if self._left_out_text:
            parts.append(f"{_amount(self._left_out_text)} of text")
        if self._left_out_displays:
            parts.append(f"{self._left_out_displays} displays")
        if not parts:
            return []
        return [notice(f"Earlier output was left out here ({' and '.join(parts)}); the last of it follows.")]


def notice(sentence: str) -> Output:
    """An output of ours among those of the user."""
    html = f'<div style="color: var(--jp-ui-font-color2); font-style: italic">{escape(sentence)}</div>'
    return {"output_type": "display_data", "data": {"text/plain": sentence, "text/html": html}, "metadata": {}}


def continued(before: str, more: str) -> str:
    """`collapse(before + more)`, at the cost of the open line only; `before` is collapsed already."""
    line = before.rfind("\n") + 1
    return before[:line] + collapse(before[line:] + more)


def squeeze(text: str) -> str:
    """A shorter text that has the same effect on any line that it continues.

    What stands before the first carriage return belongs to the open line, which is not known here.
    """
    if "\r" not in text:
        return text
    first, newline, rest = text.replace("\r\n", "\n").partition("\n")
    start, carriage_return, overwriting = first.partition("\r")
    kept = start + carriage_return + collapse(overwriting)
    # A carriage return at the end of a line that goes on elsewhere was an end of line, not of the text.
    return kept + newline + collapse(rest)


def size_of(output: Output) -> int:
    """About how many bytes this output takes."""
    if output["output_type"] == "error":
        return sum(len(line) for line in output["traceback"]) + len(output["evalue"])
    return sum(_size(value) for value in output["data"].values())


def _size(value: object) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value, default=str))


def _piece_size(piece: Piece) -> int:
    output = piece.get("output")
    if output is None:
        return 100
    return 150 + (len(output["text"]) if output["output_type"] == "stream" else size_of(output))


def _shorter_error(output: Output, most: int) -> Output:
    """The end of a very long error."""
    lines: list[str] = []
    left = most
    for line in reversed(output["traceback"]):
        lines.insert(0, line[-left:])
        left -= len(line)
        if left <= 0:
            break
    return {**output, "evalue": output["evalue"][:10_000], "traceback": ["[...]", *lines]}


def _amount(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 100 * 1024 else f"{size / 1024:.1f} KiB"

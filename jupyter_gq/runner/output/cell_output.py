"""The outputs of one cell, and the pieces that describe their changes. Pure.

Rules
-----
- Folding is exact: folding the pieces (`client.outputs.fold`) gives the outputs here. A piece may be late, never lost.
- No superfluous pieces: text of one stream is joined, only the last of several updates of a display is sent, and a
  clear drops the pieces before it.
- Resend when long: once the sent pieces add up to a few times the outputs, one piece (`set`) sends all outputs again,
  and the service forgets the pieces before it. So a progress bar that is drawn for days takes little room.
- Bounded outputs: a cell keeps the end of its text and its last displays; its first output then says what was left
  out. Once the outputs of all cells of the job exceed `OutputBounds.job`, a notice replaces each further display.
- Readable outputs: every output has the bounds of `domain.output_bounds`, so that the service takes its piece, and the
  next run can read the notebook. Numbers and lone surrogates that JSON does not have everywhere are replaced.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_gq.client.outputs.fold import collapse, make_notice
from jupyter_gq.domain import bounded_json, output_bounds
from jupyter_gq.domain.errors import InvalidJson
from jupyter_gq.domain.json_types import JsonObject

#: Size in bytes up to which a display takes no more room than the notice that would replace it.
_SMALL = 1024
#: Most characters of the name and of the message of an error that is shortened.
_LONGEST_MESSAGE = 10_000
#: Most characters of the formats of an output in a notice about it.
_LONGEST_KINDS = 200

Output = JsonObject
Piece = JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputBounds:
    """The limits of the outputs that are kept: text in characters, displays as `output_bounds.measure_json` does."""

    #: Most text of a cell; text that exceeds it is cut to `text_kept`.
    text: int = output_bounds.CELL_TEXT
    text_kept: int = 512 * 1024
    #: Largest sum of the displays (images, HTML) of a cell; displays that exceed it are cut to `rich_kept`.
    rich: int = output_bounds.CELL_SIZE
    rich_kept: int = 16 * 1024 * 1024
    #: Largest single display; a notice replaces a larger one.
    single: int = output_bounds.SINGLE_SIZE
    #: Largest number of outputs of a cell; if there are more, the older half is dropped.
    count: int = 2000
    #: Largest sum of the outputs of a job; beyond it a notice replaces each further display.
    job: int = output_bounds.JOB_SIZE
    #: Size of a cell's pieces which, together with twice its outputs, causes all outputs to be sent again in one piece.
    pieces_size: int = 1024 * 1024


class Entry:
    """An output of a cell. The entry stays the same object if the output moves or gets another content."""

    __slots__ = ("is_kept", "is_stream", "output", "size")

    def __init__(self, output: Output) -> None:
        #: Whether the cell still has this output: not cleared, and not dropped beyond the bounds.
        self.is_kept = True
        self.replace(output)

    def replace(self, output: Output) -> None:
        """Replace the content of the output and measure its size."""
        self.output: Output = output
        #: Whether the output is text of a stream, which may continue.
        self.is_stream: bool = output["output_type"] == "stream"
        self.size: int = len(output["text"]) if self.is_stream else measure_output(output)


class CellOutput:
    """The outputs of one cell."""

    def __init__(self, cell: str, role: str, bounds: OutputBounds) -> None:
        self._about = {"cell": cell, "role": role}
        self._bounds = bounds
        self.entries: list[Entry] = []
        self._stream: tuple[str, list[str]] | None = None
        #: Pieces since `take_pieces`, each with the entry whose content it carries; a clear has none.
        self._pieces: list[tuple[Piece, Entry | None]] = []
        #: The piece that carries the content of an entry, for each entry changed since `take_pieces`; keyed by `id`.
        self._carrier: dict[int, Piece] = {}
        #: Text of the last stream before its pending piece.
        self._text_before_piece = ""
        #: Whether the outputs of the whole job have reached `OutputBounds.job`.
        self.job_is_full = False
        self._resend_all = False
        #: Bytes of the pieces taken since the last `set`.
        self._sent_size = 0
        self._left_out_text = 0
        self._left_out_displays = 0

    @property
    def outputs(self) -> list[Output]:
        """The outputs as nbformat, with a notice in front if some were left out."""
        self._close_stream()
        return [*self._make_notices(), *(entry.output for entry in self.entries)]

    @property
    def size(self) -> int:
        """The approximate size of the outputs in bytes."""
        return sum(entry.size for entry in self.entries)

    def restore(self, outputs: Iterable[Output]) -> None:
        """Replace all outputs by those of an earlier run; the next pieces send them again, so that both sides agree."""
        self._forget(self.entries)
        self.entries = [Entry(self._limit(output)) for output in outputs]
        self._resend_all = True
        self._apply_bounds()

    def write_text(self, name: str, text: str) -> None:
        """Add text to the stream `name`; a stream other than the last one begins a new output."""
        if self._stream is None or self._stream[0] != name:
            self._close_stream()
            self._stream = (name, [])
        self._stream[1].append(bounded_json.make_whole(text))

    def add(self, output: Output) -> Entry:
        """Append a display or an error; return its entry.

        If the output is beyond the bounds, a notice or a shorter error takes its place. If the cell exceeds its bounds,
        its oldest outputs are dropped.
        """
        self._close_stream()
        entry = Entry(self._limit(output))
        self.entries.append(entry)
        self._add_piece({"op": "append", **self._about, "output": entry.output}, entry)
        self._apply_bounds()
        return entry

    def update(self, entry: Entry, output: Output) -> None:
        """Replace the content of a display; do nothing if the display is no longer here.

        A notice replaces content that is beyond the bounds. If the cell exceeds its bounds, its oldest outputs are
        dropped.
        """
        self._close_stream()
        if not entry.is_kept:
            return
        entry.replace(self._limit(output))
        if id(entry) in self._carrier:
            self._carrier[id(entry)]["output"] = entry.output
        else:
            index = next(i for i, known in enumerate(self.entries) if known is entry)
            place = index + len(self._make_notices())
            piece = {"op": "replace", **self._about, "index": place, "output": entry.output}
            self._add_piece(piece, entry)
        self._apply_bounds()

    def remove(self, entries: Iterable[Entry]) -> None:
        """Remove these outputs, as if they had never been there; the next pieces send all others again."""
        gone = [entry for entry in entries if entry.is_kept]
        if gone:
            self._close_stream()
            self._remove(gone)

    def clear(self) -> None:
        """Remove all outputs, and replace the pending pieces by one that clears the cell."""
        self._stream = None
        self._forget(self.entries)
        self.entries = []
        self._left_out_text = self._left_out_displays = 0
        self._resend_all = False
        self._drop_pieces()
        self._pieces.append(({"op": "clear", **self._about}, None))

    @property
    def pending_size(self) -> int:
        """The approximate size in bytes of the pieces that `take_pieces` would return now; 0 if nothing changed.

        Reading the property also decides whether the next `take_pieces` sends all outputs again (see "resend when
        long").
        """
        self._close_stream()
        if not self._resend_all:
            size = self._pieces_size()
            whole = sum(entry.size for entry in self.entries) + 1000
            # No superfluous pieces: changes that are larger than the outputs themselves are not worth sending.
            too_large = size > self._bounds.text and size > whole
            too_many = self._sent_size + size > self._bounds.pieces_size + 2 * whole  # resend when long
            self._resend_all = size > 0 and (too_large or too_many)
            if not self._resend_all:
                return size
        return sum(entry.size for entry in self.entries) + 200

    def take_pieces(self) -> list[Piece]:
        """Return the pieces that describe the changes since the last call, and forget those pieces.

        If outputs were restored or dropped, or `pending_size` decided so, return one piece with all outputs instead.
        """
        self._close_stream()
        whole: Piece = {"op": "set", **self._about, "outputs": self.outputs}
        pieces = [whole] if self._resend_all else [piece for piece, _ in self._pieces]
        self._sent_size = 0 if self._resend_all else self._sent_size + self._pieces_size()
        self._resend_all = False
        self._drop_pieces()
        return pieces

    def _pieces_size(self) -> int:
        """Return the approximate size of the pending pieces in bytes."""
        return sum(_piece_size(piece, entry) for piece, entry in self._pieces)

    def _drop_pieces(self) -> None:
        self._pieces = []
        self._carrier = {}

    def _add_piece(self, piece: Piece, entry: Entry) -> None:
        if not self._resend_all:  # otherwise one piece sends all outputs
            self._pieces.append((piece, entry))
            self._carrier[id(entry)] = piece

    def _close_stream(self) -> None:
        """Turn the stream text written since the last call into an output and its piece; do nothing without text."""
        if self._stream is None:
            return
        name, parts = self._stream
        self._stream = None
        text = "".join(parts)
        last = self.entries[-1] if self.entries else None
        if last is None or not last.is_stream or last.output["name"] != name:
            last = Entry({"output_type": "stream", "name": name, "text": ""})
            self.entries.append(last)
        carrier = self._pieces[-1][0] if self._pieces else None
        if carrier is None or self._carrier.get(id(last)) is not carrier:
            self._text_before_piece = last.output["text"]
            carrier = {"op": "append", **self._about, "output": {**last.output, "text": ""}}
            self._add_piece(carrier, last)
        # The entry's text is computed from the piece itself: what a text shows can depend on where it is cut.
        collapsed = collapse_piece(carrier["output"]["text"] + text)
        carrier["output"] = {**carrier["output"], "text": collapsed}
        last.replace({**last.output, "text": append_text(self._text_before_piece, collapsed)})
        self._apply_bounds()

    def _limit(self, output: Output) -> Output:
        """Return the output as readable JSON, or if it is beyond the bounds, a shorter error or a notice in its place.

        Once the outputs of the job have reached their limit, a notice also replaces each display above 1 KiB.
        """
        if output["output_type"] == "error":
            output = _shorten_error(output, self._bounds.text_kept)
        try:
            readable: Output = bounded_json.make_readable(
                output, max_nodes=output_bounds.SINGLE_VALUES, max_depth=output_bounds.SINGLE_DEPTH
            )
        except InvalidJson as error:
            return _make_substitute("One output", output, str(error))
        if readable["output_type"] in {"error", "stream"}:
            return readable
        size = measure_output(readable)
        if size > self._bounds.single:
            why = f"a job keeps single outputs up to {_amount(self._bounds.single)}"
        elif self.job_is_full and size > _SMALL:
            why = f"the outputs of this job have reached {_amount(self._bounds.job)}"
        else:
            return readable
        return _make_substitute(f"One output of {_amount(size)}", readable, why)

    def _apply_bounds(self) -> None:
        """Drop the oldest outputs if the text, the displays or the number of outputs of this cell exceed its bounds."""
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
        """Drop the oldest `excess` characters of text, or a little more to end at a line; count them for the notice."""
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
        """Drop the oldest displays until at least `excess` bytes are gone."""
        gone: list[Entry] = []
        for entry in [entry for entry in self.entries if not entry.is_stream]:
            if excess <= 0:
                break
            excess -= entry.size
            gone.append(entry)
        self._drop(gone)

    def _drop(self, gone: list[Entry]) -> None:
        """Remove these entries and count them for the notice; let the next pieces send all remaining outputs again."""
        for entry in gone:
            if entry.is_stream:
                self._left_out_text += entry.size
            else:
                self._left_out_displays += 1
        self._remove(gone)

    def _remove(self, gone: list[Entry]) -> None:
        self._forget(gone)
        self.entries = [entry for entry in self.entries if entry.is_kept]
        self._resend_all = True
        self._drop_pieces()

    @staticmethod
    def _forget(gone: Iterable[Entry]) -> None:
        for entry in gone:
            entry.is_kept = False

    def _make_notices(self) -> list[Output]:
        """Return the notice about outputs that were left out, in a list; an empty list if none was."""
        parts = []
        if self._left_out_text:
            parts.append(f"{_amount(self._left_out_text)} of text")
        if self._left_out_displays:
            parts.append(f"{self._left_out_displays} displays")
        if not parts:
            return []
        return [make_notice(f"Earlier output was left out here ({' and '.join(parts)}); the last of it follows.")]


def append_text(before: str, more: str) -> str:
    """Return `collapse(before + more)`; `before` is collapsed already, so only its last line is processed again."""
    line = before.rfind("\n") + 1
    return before[:line] + collapse(before[line:] + more)


def collapse_piece(text: str) -> str:
    """Return the text of a stream without the parts that its own carriage returns overwrite.

    On the first line, the text before the first return is kept, since that line may have begun in an earlier piece.
    """
    if "\r" not in text:
        return text
    first, newline, rest = text.replace("\r\n", "\n").partition("\n")
    start, carriage_return, overwriting = first.partition("\r")
    kept = start + carriage_return + collapse(overwriting)
    # A carriage return before a newline ends a line that began elsewhere; it overwrites nothing.
    return kept + newline + collapse(rest)


def measure_output(output: Output) -> int:
    """Return the size of an output, as `output_bounds.measure_json` measures it."""
    return output_bounds.measure_json(json.dumps(output, ensure_ascii=False))


def _make_substitute(what: str, output: Output, why: str) -> Output:
    """Return a notice in the place of an output; `what` names the output, and `why` is a clause."""
    kinds = bounded_json.make_whole(", ".join(sorted(output.get("data", ())))[:_LONGEST_KINDS])
    return make_notice(f"{what} ({kinds or output['output_type']}) was left out: {why}. Save it to a file instead.")


def _piece_size(piece: Piece, entry: Entry | None) -> int:
    if entry is None:
        return 100
    return 150 + (len(piece["output"]["text"]) if entry.is_stream else entry.size)


def _shorten_error(output: Output, most: int) -> Output:
    """Return an error of at most about `most` bytes: if it is longer, it has only the end of its traceback.

    The name and the value are then cut to 10,000 characters, and the line "[...]" stands in front of the traceback.
    """
    costs = [max(len(line), output_bounds.VALUE_SIZE) for line in output["traceback"]]
    if sum(costs) + len(output["evalue"]) + len(output["ename"]) <= most:
        return output
    lines: list[str] = []
    for line, cost in zip(reversed(output["traceback"]), reversed(costs), strict=True):
        lines.append(line[-most:])
        most -= cost
        if most <= 0:
            break
    return {
        **output,
        "ename": output["ename"][:_LONGEST_MESSAGE],
        "evalue": output["evalue"][:_LONGEST_MESSAGE],
        "traceback": ["[...]", *reversed(lines)],
    }


def _amount(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 100 * 1024 else f"{size / 1024:.1f} KiB"

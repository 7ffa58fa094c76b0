"""The source of cells as IPython's own transformer writes it: magics and commands as calls. Slow to import."""

import re
from typing import cast

from IPython.core.inputtransformer2 import (
    TRANSFORM_LOOP_LIMIT,
    TokenTransformBase,
    TransformerManager,
    find_end_of_continued_line,
    make_tokens_by_line,
)

from .work_limit import TooMuchWork

#: Magics of IPython and ipykernel that a person may call without `%`, and that take an argument.
_AUTOMAGICS = frozenset(
    {
        *("alias", "autoreload", "cat", "cd", "colors", "conda", "config", "cp", "debug", "ed", "edit", "env", "gui"),
        *("hist", "history", "ldir", "less", "lf", "lk", "ll", "load", "load_ext", "logstart", "ls", "lx", "macro"),
        *("mamba", "man", "matplotlib", "micromamba", "mkdir", "more", "mv", "notebook", "pdef", "pdoc", "pfile"),
        *("pinfo", "pip", "precision", "prun", "psearch", "psource", "pushd", "pycat", "pylab", "recall", "reload_ext"),
        *("rep", "rerun", "reset", "rm", "rmdir", "run", "save", "set_env", "store", "sx", "system", "tb", "time"),
        *("timeit", "unload_ext", "uv", "who", "whos", "xdel", "xmode"),
    }
)
_BRACKETS = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}
#: What becomes at most two tokens of Python, apart from the ends of lines.
_PIECE = re.compile(r"\w+|[^\w\s]")
#: Characters that take as long to read as one such piece does, whatever they are.
_CHARACTERS_OF_PIECE = 16
#: Work for each line, in such pieces: each kind of magic is looked for in it.
_PIECES_OF_LINE = 3
#: Lines that take as long to copy as one such piece takes to read. Each magic that is transformed copies all lines.
_LINES_OF_PIECE = 150
#: Characters that are copied as fast. IPython copies the rest of a line at each triple quote in it.
_COPIED_OF_PIECE = 80_000
#: Possessive, so that spaces before the end of the line are read once.
_WORD_AND_REST = re.compile(r"\s*([a-z_]+)[ \t]+([^=,\s][^\n]*+)\s*")


def transform(source: str, most: int) -> str:
    """Return the source of a cell with magics and commands as calls; the result is not checked, and may be no Python.

    Raises `SyntaxError` if the transformer fails, such as on a wrong dedent or on more magics than IPython allows, and
    `RecursionError` if the source is nested too deeply. Raises `TooMuchWork` if the transformer would read more than
    `most` words and signs: it reads the whole cell once more for each magic that hides other lines from Python.
    """
    try:
        return _BoundedTransformer(most).transform_cell(source)
    except RecursionError:
        raise
    except RuntimeError as error:
        raise SyntaxError(
            f"the cell has {TRANSFORM_LOOP_LIMIT} or more magics and commands, and IPython runs no such cell"
        ) from error


def read_automagic(code: str) -> str | None:
    """Return the Python source that calls the magic of a one-line cell such as `pip install x`; None for other cells.

    Call it only for `code` that is no valid Python. IPython also takes valid Python such as `ls` for a magic, but none
    of that has an effect that matters here.
    """
    found = _WORD_AND_REST.fullmatch(code)
    if found is None or found[1] not in _AUTOMAGICS:
        return None
    return f"get_ipython().run_line_magic({found[1]!r}, {found[2].rstrip()!r})\n"


class _BoundedTransformer(TransformerManager):
    """IPython's transformer, which transforms many lines at once, and gives up before too many words and signs.

    IPython's own one reads the whole cell once more for each magic, since what follows a magic may be no Python.
    """

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = most

    def transform_cell(self, cell: str) -> str:
        """Return the source of a cell with magics and commands as calls."""
        self._spend(sum(map(_estimate_quotes, cell.splitlines())))
        code: str = super().transform_cell(cell)
        return code

    def do_token_transforms(self, lines: list[str]) -> list[str]:
        """Transform all magics and commands in these lines; raise `RuntimeError` for as many as IPython refuses."""
        transformed = 0
        while transformed < TRANSFORM_LOOP_LIMIT:
            self._spend(sum(map(_estimate_work, lines)))
            found = self._find_independent(lines)
            if not found:
                return lines
            for each in reversed(found):  # the numbers of the lines above stay as they are
                lines = each.transform(lines)
            transformed += len(found)
        raise RuntimeError("the cell has too many magics and commands")

    def _find_independent(self, lines: list[str]) -> list[TokenTransformBase]:
        """Return what can be transformed together: the first magic or command, and others up to one that hides lines.

        A quote or bracket in a magic may hide the lines below it from Python's tokenizer, or lay open the inside of a
        text.
        """
        found: list[TokenTransformBase] = []
        kinds = cast(list[type[TokenTransformBase]], self.token_transformers)
        for tokens in make_tokens_by_line(lines):
            matches = [kind.find([tokens]) for kind in kinds]  # type: ignore[no-untyped-call]
            candidates = [each for each in matches if each is not None]
            if not candidates:
                continue
            first = next((each for each in sorted(candidates, key=_get_order) if _can_transform(each, lines)), None)
            if first is None:
                break
            self._spend(len(lines) // _LINES_OF_PIECE)
            found.append(first)
            end = find_end_of_continued_line(lines, first.start_line)
            if tokens[-1].start[0] - 1 != end or sum(_BRACKETS.get(token.string, 0) for token in tokens):
                break
        return found

    def _spend(self, work: int) -> None:
        """Take work off what is left; raise `TooMuchWork` if nothing is left."""
        self._left -= work
        if self._left < 0:
            raise TooMuchWork("the magics of this cell need too much work")


def _estimate_work(line: str) -> int:
    """Return how long Python's tokenizer, which takes about as long for each token, needs for a line, in pieces."""
    return _PIECES_OF_LINE + len(_PIECE.findall(line)) + len(line) // _CHARACTERS_OF_PIECE


def _estimate_quotes(line: str) -> int:
    """Return how long IPython takes to find the texts in a line that have triple quotes, in pieces."""
    return (line.count('"""') + line.count("'''")) * len(line) // _COPIED_OF_PIECE


def _get_order(transformer: TokenTransformBase) -> tuple[int, int]:
    """Return the key by which IPython orders what can be transformed."""
    order: tuple[int, int] = transformer.sortby()  # type: ignore[no-untyped-call]
    return order


def _can_transform(transformer: TokenTransformBase, lines: list[str]) -> bool:
    """Return whether a magic or command is one: `f(x)?` is none."""
    try:
        transformer.transform(lines)
    except SyntaxError:
        return False
    return True

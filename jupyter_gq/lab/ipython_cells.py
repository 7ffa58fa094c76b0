"""The source of cells as IPython's own transformer writes it: magics and commands as calls. Slow to import."""

import re

from IPython.core.inputtransformer2 import TRANSFORM_LOOP_LIMIT, TransformerManager

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
_WORD_AND_REST = re.compile(r"\s*([a-z_]+)[ \t]+([^=,\s][^\n]*)\s*")


def transform(source: str, most: int) -> str:
    """Return the source of a cell with magics and commands as calls; the result is not checked, and may be no Python.

    Raises `SyntaxError` if the transformer fails, such as on a wrong dedent or on more magics than IPython allows, and
    `RecursionError` if the source is nested too deeply. Raises `TooMuchWork` if the transformer would read more than
    `most` characters: it reads the whole cell once more for each magic.
    """
    try:
        code: str = _BoundedTransformer(most).transform_cell(source)
    except RecursionError:
        raise
    except RuntimeError as error:
        raise SyntaxError(
            f"the cell has more than {TRANSFORM_LOOP_LIMIT} magics and commands, and IPython runs no such cell"
        ) from error
    return code


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
    """IPython's transformer, which gives up when it has read a number of characters."""

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = most

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        """Transform the first magic in these lines; return whether there was one, and the lines."""
        self._left -= sum(map(len, lines))
        if self._left < 0:
            raise TooMuchWork("the magics of this cell need too much work")
        changed: tuple[bool, list[str]] = super().do_one_token_transform(lines)  # type: ignore[no-untyped-call]
        return changed

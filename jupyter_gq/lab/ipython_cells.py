"""The source of cells as IPython's own transformer writes it: magics and commands as calls. Slow to import."""

from IPython.core.inputtransformer2 import TRANSFORM_LOOP_LIMIT, TransformerManager

from .work_limit import TooMuchWork


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

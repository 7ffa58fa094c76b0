"""The trait for a number of seconds, minutes or the like, which is neither endless nor negative."""

from traitlets import Float, HasTraits, TraitError

from jupyter_gq.domain.plain_text import quoted

#: The largest number: thirty years, if it counts seconds. Longer waits are refused by some clocks of the system.
_MOST = 1e9


class FiniteFloat(Float[float, float]):
    """A trait for a number from `least` to a billion; texts, `None`, `True` and `False` are refused."""

    def __init__(self, default: float, *, least: float = 0.0, help: str = "") -> None:
        super().__init__(default, help=help)
        self._least = least

    def validate(self, obj: HasTraits, value: object) -> float:
        """Return the number as a float; raise `TraitError` for what is not a number in the range, such as NaN."""
        if isinstance(value, int | float) and not isinstance(value, bool) and self._least <= value <= _MOST:
            return float(value)
        raise TraitError(
            f"c.{type(obj).__name__}.{self.name} = {quoted(value)}: it is not a number from {self._least:g} to "
            f"{_MOST:,.0f}. Write such a number, or leave the line out."
        )

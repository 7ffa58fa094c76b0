"""Traits whose values are secret: an error names the setting and the type of its value, never the value."""

from typing import TYPE_CHECKING, NoReturn, TypeVar

from traitlets import Dict, HasTraits, TraitError, TraitType, Unicode

if TYPE_CHECKING:
    _Texts = Dict[str, str]
else:
    _Texts = Dict  # generic only for the type checker

G = TypeVar("G")
S = TypeVar("S")


class SecretText(Unicode[str, str | bytes]):
    """A text that no error shows."""

    def error(
        self, obj: HasTraits | None, value: object, error: Exception | None = None, info: str | None = None
    ) -> NoReturn:
        """Raise `TraitError` with the name of the trait and the type of the value, without the value."""
        raise _refusal(obj, self, value)

    def validate(self, obj: HasTraits, value: object) -> str:
        """Return the text; raise `TraitError` without the value if it is no text, or bytes that are none."""
        try:
            return super().validate(obj, value)
        except TraitError:
            raise _refusal(obj, self, value) from None


class SecretTexts(_Texts):
    """Texts by name that no error shows."""

    info_text = "a dict of texts"

    def validate(self, obj: HasTraits, value: object) -> dict[str, str]:
        """Return a copy of the dict; raise `TraitError` without its values if it is no dict of texts."""
        if not isinstance(value, dict):
            raise _refusal(obj, self, value)
        for part in (*value, *value.values()):
            if not isinstance(part, str):
                raise _refusal(obj, self, part)
        return dict(value)


def _refusal(obj: HasTraits | None, trait: TraitType[G, S], value: object) -> TraitError:
    """Return the error for a value that a trait refuses."""
    return TraitError(
        f"c.{type(obj).__name__}.{trait.name} is not {trait.info()}: a value of the type {type(value).__name__} is in "
        "it, which is not shown, because it may be secret. Write texts in quotes."
    )

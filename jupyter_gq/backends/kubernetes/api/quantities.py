"""Quantities of Kubernetes, such as 250m or 16Gi. Pure."""

from decimal import Decimal, InvalidOperation

#: Binary and decimal suffixes of quantities.
_SUFFIXES = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
}  # fmt: skip


def quantity(text: object) -> Decimal | None:
    """Return a quantity of Kubernetes in its base unit: "250m" is 0.25. None if it is missing or no quantity."""
    word = str(text or "")
    scale = Decimal(1)
    for suffix, factor in _SUFFIXES.items():
        if word.endswith(suffix):
            word, scale = word[: -len(suffix)], Decimal(str(factor))
            break
    try:
        return Decimal(word) * scale
    except InvalidOperation:
        return None

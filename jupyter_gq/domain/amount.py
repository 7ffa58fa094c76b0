"""Amounts of GPU and memory: integers inside, decimal text at the edges.

Rules
-----
1. A GPU amount is an integer number of milli-GPU (1 GPU = 1000). Text such as "0.25" is read as a
   decimal, never as a float, so that 0.1 + 0.2 fits a quota of 0.3.
2. A *request* is either a fraction of one device (0.001 to 0.999) or a whole number of devices:
   1.5 is refused, because half a device beside a whole one is not a thing a program can use.
3. A *quota* is a total, so any multiple of 0.001 that is not negative is allowed.
"""

from decimal import Decimal, InvalidOperation
from typing import NewType

from .errors import InvalidAmount

MilliGpu = NewType("MilliGpu", int)
MiB = NewType("MiB", int)
#: Seconds since the epoch, UTC.
Instant = NewType("Instant", float)
#: A length of time in seconds.
Seconds = NewType("Seconds", float)

ONE_GPU = MilliGpu(1000)
NO_GPU = MilliGpu(0)
NO_MEMORY = MiB(0)
#: Power of ten that no amount reaches.
_MOST_DIGITS = 9


def parse_quota(value: str | int | float) -> MilliGpu:
    """Read a total of GPUs ("0.25", 0.25, 1, "1.5") as milli-GPU; raise `InvalidAmount` when it is none."""
    milli = _decimal(value) * ONE_GPU
    if milli < 0:
        raise InvalidAmount(value, "it is negative", "use 0 or more GPUs")
    if milli != milli.to_integral_value():
        raise InvalidAmount(value, "it is finer than a thousandth of a GPU", "use at most three digits, such as 0.125")
    return MilliGpu(int(milli))


def parse_request(value: str | int | float) -> MilliGpu:
    """Read what one workload or one user asks for: 0, a fraction of one GPU, or a whole number of GPUs.

    The result is in milli-GPU. Raises `InvalidAmount` for anything else (1.5, "abc", 0.1234, -1).
    """
    milli = parse_quota(value)
    if milli > ONE_GPU and milli % ONE_GPU:
        whole = milli // ONE_GPU
        raise InvalidAmount(
            value,
            "it is neither a fraction of one GPU nor a whole number of GPUs",
            f"use a fraction below 1, or {whole} or {whole + 1}",
        )
    return milli


def format_gpus(milli: int) -> str:
    """Write milli-GPU as the shortest decimal: 250 -> "0.25", 2000 -> "2"."""
    text = f"{Decimal(milli) / ONE_GPU:.3f}".rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def _decimal(value: str | int | float) -> Decimal:
    expected = 'write a number of GPUs such as 0.25, "0.5" or 2'
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidAmount(value, "it is not a number", expected)
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise InvalidAmount(value, "it is not a number", expected) from error
    if not number.is_finite():
        raise InvalidAmount(value, "it is not a finite number", expected)
    if number.adjusted() > _MOST_DIGITS:  # before any arithmetic: an exponent can make a number that fills the memory
        raise InvalidAmount(value, "it is far more than any cluster has", expected)
    return number

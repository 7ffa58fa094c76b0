"""Amounts of GPU, CPU and memory: integers inside, decimal text at the edges.

Rules
-----
Exact amounts: a GPU amount is an integer number of milli-GPU (1 GPU = 1000). Text such as "0.25" is read as a decimal,
never as a float, so that 0.1 + 0.2 fits a quota of 0.3.

Requests: a request is either a fraction of one device (0.001 to 0.999) or a whole number of devices. An amount such as
1.5 is refused, because no program can use half a device beside a whole one.

Quotas: a quota is a total, so any multiple of 0.001 that is not negative is allowed.

Host resources: CPU is counted in thousandths of a core, and memory in MiB. A number without a unit is GiB. K, M, G and
T are powers of 1024 however they are written ("16G", "16Gi", "16 GiB"), as in the Hub's own `mem_limit`.
"""

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from enum import IntEnum
from fractions import Fraction
from typing import NewType

from .errors import InvalidAmount, Resource
from .plain_text import BLANKS

MilliGpu = NewType("MilliGpu", int)
#: Thousandths of a CPU core.
MilliCpu = NewType("MilliCpu", int)
MiB = NewType("MiB", int)
#: Seconds since the epoch, UTC.
Instant = NewType("Instant", float)
#: A length of time in seconds.
Seconds = NewType("Seconds", float)

#: The longest time that a job may be expected or allowed to run: 10 years.
LONGEST_TIME = Seconds(10 * 366 * 24 * 3600)
ONE_GPU = MilliGpu(1000)
NO_GPU = MilliGpu(0)
NO_MEMORY = MiB(0)
ONE_CORE = MilliCpu(1000)
GIB = MiB(1024)
#: Highest power of ten in an amount.
_MOST_DIGITS = 9
_TOO_MUCH = "it is far more than any cluster has"


class HostResource(IntEnum):
    """CPU or memory of a machine; the number is its index in pairs such as `HostAmounts`, (CPU, memory)."""

    CPU = 0
    MEMORY = 1


def parse_quota(value: object) -> MilliGpu:
    """Return a total of GPUs ("0.25", 0.25, 1, "1.5") in milli-GPU.

    Raises `InvalidAmount` if the value is not a number, is negative, or is finer than a thousandth of a GPU.
    """
    milli = _decimal(value) * ONE_GPU
    if milli < 0:
        raise InvalidAmount(value, "it is negative", "use 0 or more GPUs")
    if milli != milli.to_integral_value():
        raise InvalidAmount(value, "it is finer than a thousandth of a GPU", "use at most three digits, such as 0.125")
    return MilliGpu(int(milli))


def parse_request(value: object) -> MilliGpu:
    """Return the request of one workload in milli-GPU: 0, a fraction of one GPU, or a whole number of GPUs.

    Raises `InvalidAmount` for anything else (1.5, "abc", 0.1234, -1).
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
    """Return milli-GPU as the shortest decimal: 250 -> "0.25", 2000 -> "2"."""
    text = f"{Decimal(milli) / ONE_GPU:.3f}".rstrip("0").rstrip(".")
    return "0" if text in {"", "-0"} else text


def parse_cpus(value: object) -> MilliCpu:
    """Return CPU cores (4, "0.5") in thousandths of a core.

    Raises `InvalidAmount` if the value is not a number, is negative, or is finer than a thousandth of a core.
    """
    milli = _decimal(value, Resource.CPU) * ONE_CORE
    if milli < 0:
        raise InvalidAmount(value, "it is negative", "use 0 or more cores", Resource.CPU)
    if milli != milli.to_integral_value():
        raise InvalidAmount(value, "it is finer than a thousandth of a core", "use at most three digits", Resource.CPU)
    return MilliCpu(int(milli))


def parse_memory(value: object) -> MiB:
    """Return an amount of memory (16, "16 GiB", "512Mi") in MiB, rounded up. A number without a unit counts GiB.

    Raises `InvalidAmount` if the value is not such an amount, is negative, or is more than 0 and less than 1 MiB.
    """
    number, scale = value, _SCALES["G"]
    if isinstance(value, str) and (match := _WITH_UNIT.fullmatch(value)):
        number, scale = match["number"], _SCALES[match["unit"].upper()]
    mib = _decimal(number, Resource.MEMORY, value) * scale
    if mib < 0:
        raise InvalidAmount(value, "it is negative", "use 0 or more GiB", Resource.MEMORY)
    if 0 < mib < 1:
        raise InvalidAmount(value, "it is less than 1 MiB", "use 1 MiB or more", Resource.MEMORY)
    return MiB(int(mib.to_integral_value(ROUND_CEILING)))


def format_cpus(milli: int) -> str:
    """Return thousandths of a core as the shortest decimal: 500 -> "0.5", 4000 -> "4"."""
    return format_gpus(milli)


def format_memory(mib: int) -> str:
    """Return MiB as text that `parse_memory` reads as the same amount.

    Examples: 16384 -> "16 GiB", 1536 -> "1.5 GiB", 500 -> "500 MiB".
    """
    gib = Decimal(mib) / GIB
    if mib < GIB or gib != round(gib, 2):
        return f"{mib} MiB"
    return f"{gib:.2f}".rstrip("0").rstrip(".") + " GiB"


#: How to write an amount of a resource, without the quotation marks that only some places need, such as Python code.
_EXPECTED = {
    Resource.GPU: "write a number of GPUs such as 0.25, 0.5 or 2",
    Resource.CPU: "write a number of cores such as 0.5 or 4",
    Resource.MEMORY: "write a number of GiB such as 16, or an amount with its unit such as 16 GiB or 512 MiB",
}
#: Size of a unit in MiB.
_SCALES = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024**2)}
_SPACES = rf"[\s{BLANKS}]*"
_WITH_UNIT = re.compile(
    rf"{_SPACES}(?P<number>[^\s{BLANKS}A-Za-z]+){_SPACES}(?P<unit>[KMGT])(iB|i|B)?{_SPACES}", re.IGNORECASE
)


def _decimal(value: object, of: Resource = Resource.GPU, written: object = None) -> Decimal:
    """Return a number, or the text of one, as a decimal.

    Raises `InvalidAmount` if the value is neither, is True or False, is not finite, or has more than 10 digits before
    the point. The error names the resource `of` and the text `written`, which is `value` unless given.
    """
    told = value if written is None else written
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        problem = "it is a fraction and no decimal number" if isinstance(value, Fraction) else "it is not a number"
        raise InvalidAmount(told, problem, _EXPECTED[of], of)
    if isinstance(value, int) and abs(value) >= 10 ** (_MOST_DIGITS + 1):  # Python may refuse to write it as text
        raise InvalidAmount(told, _TOO_MUCH, _EXPECTED[of], of)
    text = str(value).strip().strip(BLANKS)
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise InvalidAmount(told, "it is not a number", _EXPECTED[of], of) from error
    if not text.isascii() or "_" in text:  # Python reads "1_0" as 10, and digits of all alphabets
        raise InvalidAmount(told, "it is not a number", _EXPECTED[of], of)
    if not number.is_finite():
        raise InvalidAmount(told, "it is not a finite number", _EXPECTED[of], of)
    if number.adjusted() > _MOST_DIGITS:  # asked before any arithmetic: a large exponent would fill the memory
        raise InvalidAmount(told, _TOO_MUCH, _EXPECTED[of], of)
    return number


def format_bytes(count: int) -> str:
    """Return a number of bytes as text in the largest unit that fits: 812 -> "812 bytes", 12_900_000 -> "12.3 MiB"."""
    for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} byte{'' if count == 1 else 's'}"

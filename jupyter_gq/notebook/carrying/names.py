"""The names that code of the notebook uses, found in compiled functions. Standard library only."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType

_USES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ASSIGNS = frozenset({"STORE_DEREF", "DELETE_DEREF"})
#: Names that each kernel of IPython has by itself.
_OF_KERNEL = frozenset({"get_ipython", "exit", "quit", "open", "display", "__name__", "__builtins__", "__builtin__"})
#: Names that IPython sets for the history of a kernel.
_HISTORY = frozenset({"In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh"})


def find_globals(function: FunctionType) -> Iterator[str]:
    """Yield the names of globals that a function uses, also in the functions that are inside of it."""
    for code in _list_codes(function):
        for instruction in dis.get_instructions(code):
            if instruction.opname in _USES and isinstance(instruction.argval, str):
                yield instruction.argval


def find_nonlocals(function: FunctionType) -> set[str]:
    """Return the names of the variables of functions around a function that it assigns, also inside of it."""
    outside = set(function.__code__.co_freevars)
    return {
        instruction.argval
        for code in _list_codes(function)
        for instruction in dis.get_instructions(code)
        if instruction.opname in _ASSIGNS and instruction.argval in outside.intersection(code.co_freevars)
    }


def _list_codes(function: FunctionType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions that are inside of it."""
    waiting: list[CodeType] = [function.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        yield code


def is_present_anyway(name: str, namespace: Mapping[str, object]) -> bool:
    """Return whether a new kernel has this name without our help: IPython's own names, and those of Python."""
    return name in _OF_KERNEL or (name not in namespace and hasattr(builtins, name))


def is_history(name: str) -> bool:
    """Return whether IPython sets this name for what ran in the kernel: `Out`, `_`, `_12` and so on."""
    return name in _HISTORY or (name.startswith("_") and name.removeprefix("_i").lstrip("_").isdecimal())

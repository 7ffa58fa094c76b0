"""The calls that a call makes of the functions that it is given, such as those of `map(f, xs)`. Pure.

Rules
-----
- `map`, `filter`, `starmap` and `imap`, as functions and as methods of tables and thread pools, call a function with
  the elements of what they go through; `reduce` is read as one call with the start and all of that.
- `Thread`, `Timer`, `submit`, `to_thread` and `run_in_executor` call a function with the arguments beside it.
- `apply`, `applymap` and `pipe` of a table call a function with what is not known, and so does whatever is given a
  lambda.
- What runs in another process changes nothing here.

See docs/decisions/0482-propose-what-a-call-is-made-for.md.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from jupyter_gq.lab.reading.call_parts import get_argument, get_last_name, get_receiver

#: Functions and methods that call their first argument with the elements of the others.
_WITH_ELEMENTS: Final = frozenset({"map", "filter", "starmap", "thread_map", "imap", "imap_unordered"})
#: Functions and methods that call their first argument with the others.
_WITH_ARGUMENTS: Final = frozenset({"submit", "to_thread"})
#: Methods of tables that call their first argument with a part of the table.
_WITH_PARTS: Final = frozenset({"apply", "applymap", "pipe"})
#: Words in the names of what runs functions elsewhere, unless "thread" is one too.
_ELSEWHERE: Final = ("pool", "executor", "process", "client", "parallel", "cluster", "jupyter_gq")
#: Functions that call what they are given in the kernel itself, whatever they are called on.
_IN_THREADS: Final = frozenset({"Thread", "Timer", "to_thread", "thread_map"})


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenCall:
    """A call of a function that another call was given."""

    #: With the arguments as far as they are known.
    call: ast.Call
    #: Whether the function gets the elements of these arguments instead of them.
    takes_elements: bool = False
    #: Whether nobody gets what the function returns.
    is_thrown_away: bool = False


def list_given_calls(call: ast.Call, maker: str) -> Iterator[GivenCall]:
    """Yield the calls that a call makes of what it is given.

    `maker` is the name of the class whose instance the method belongs to, or the name of that instance if the class is
    not known; of a function, its full name.
    """
    last = get_last_name(call)
    if last not in _IN_THREADS and runs_elsewhere(_name_executor(call) if last == "run_in_executor" else maker):
        return
    given, called = _find_given_call(call, last), None
    if given is not None:
        called = given.call.func
        yield given
    for each in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(each, ast.Lambda) and each is not called:
            yield GivenCall(call=_make_call(call, each, []))


def _name_executor(call: ast.Call) -> str:
    """Return the name of the executor of a `run_in_executor`, or of its class; "" for the threads of the loop."""
    executor = get_argument(call, 0)
    if isinstance(executor, ast.Call):
        return get_last_name(executor)
    return executor.id if isinstance(executor, ast.Name) else ""


def runs_elsewhere(maker: str) -> bool:
    """Return whether an object of a class of this name, or a function of this full name, runs functions elsewhere."""
    lower = maker.lower()
    return "thread" not in lower and (lower.startswith("ray.") or any(word in lower for word in _ELSEWHERE))


def call_without_arguments(func: ast.expr) -> GivenCall:
    """Return the call of a function with what is not known, whose result nobody gets."""
    return GivenCall(call=ast.copy_location(ast.Call(func=func, args=[], keywords=[]), func), is_thrown_away=True)


def _find_given_call(call: ast.Call, last: str) -> GivenCall | None:
    """Return the call of the function that stands in the place where a call of this name has one; None if none does."""
    first, rest = get_argument(call, 0), call.args[1:]
    if last in {"Thread", "Timer"}:
        target = get_argument(call, 1, "target" if last == "Thread" else "function")
        return None if target is None else GivenCall(call=_make_in_thread(call, target), is_thrown_away=True)
    if last == "run_in_executor":
        target = get_argument(call, 1)
        return None if target is None else GivenCall(call=_make_call(call, target, rest[1:]))
    if first is None:
        return None
    if last in _WITH_ELEMENTS:
        return GivenCall(call=_make_call(call, first, rest), takes_elements=True)
    if last in _WITH_ARGUMENTS:
        return GivenCall(call=_make_call(call, first, rest, call.keywords))
    if last == "reduce":
        return GivenCall(call=_make_call(call, first, [*rest[1:], *rest[:1]]))
    return GivenCall(call=_make_call(call, first, [])) if last in _WITH_PARTS and get_receiver(call) else None


def _make_in_thread(call: ast.Call, target: ast.expr) -> ast.Call:
    """Return the call that a thread makes, with its `args` and `kwargs` as far as they are written out."""
    last_place = 3 if get_last_name(call) == "Thread" else 2
    args, kwargs = get_argument(call, last_place, "args"), get_argument(call, last_place + 1, "kwargs")
    given = args.elts if isinstance(args, ast.Tuple | ast.List) else []
    named = zip(kwargs.keys, kwargs.values, strict=True) if isinstance(kwargs, ast.Dict) else ()
    keywords = [ast.keyword(arg=str(key.value), value=value) for key, value in named if isinstance(key, ast.Constant)]
    return _make_call(call, target, given, keywords)


def _make_call(
    call: ast.Call, func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword] | None = None
) -> ast.Call:
    return ast.copy_location(ast.Call(func=func, args=args, keywords=keywords or []), call)

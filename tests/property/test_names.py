"""The names that a program needs are those without which Python raises a `NameError`, for generated programs."""

import textwrap

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jupyter_gq.lab.reading.names import find_free_names, find_made_names

from .programs import can_compile

NAMES = ("a", "b", "c", "d")


@st.composite
def expressions(draw, sure=True):
    """Return an expression; a `sure` one binds no name that another run might not bind."""
    a, b, c, d = (draw(st.sampled_from(NAMES)) for _ in range(4))
    forms = [a, f"({a}, {b})", f"[{a} for {b} in ({c},)]", f"[({a}, {b}) for {a} in ({c},) for {d} in ({a}, {b})]"]
    forms += [f"(lambda {a}, {b}=({c},): ({a}, {d}))({b})", f"({a} := ({b},))", f"{{{a}: 1 for {b} in ({c},)}} and 0"]
    if not sure:
        forms += [f"[({a} := {b}, {a}) for {c} in ({d},)]", f"({a} and ({b} := {c}), {b})", f"({a} if {b} else {c})"]
    return draw(st.sampled_from(forms))


def _block(statements):
    return textwrap.indent("\n".join(statements), "    ")


@st.composite
def statements(draw, sure=True, depth=2):
    """Return a statement, in which each function is called right after its definition."""
    a, b, c, d = (draw(st.sampled_from(NAMES)) for _ in range(4))
    value = draw(expressions(sure))
    forms = [f"{a} = {value}", f"{a} += ({value},)", f"{a}: {b} = {value}", f"{a}: {b}", f"({a}, {b}) = ({value}, {c})"]
    forms += [value, f"import math as {a}", f"del {a}"]
    if depth and draw(st.booleans()):
        inner = statements(sure, depth - 1)
        body, other = (_block(draw(st.lists(inner, min_size=1, max_size=2))) for _ in range(2))
        flat = _block(draw(st.lists(statements(sure, 0), min_size=1, max_size=2)))
        forms = [
            f"def {a}({b}: {c} = {value}, *{d}) -> {c}:\n{body}\n{a}()",
            f"class {a}:\n{flat}",
            f"class {a}:\n    {b} = 1\n    def {c}(self):\n{textwrap.indent(body, '    ')}\n{a}().{c}()",
            f"class {a}({b}.__class__):\n{flat}",
        ]
        if not sure:
            forms += [
                f"def {a}():\n    global {b}\n{body}\n{a}()",
                f"if {value}:\n{body}\nelse:\n{other}",
                f"if {value}:\n{body}",
                f"for {a} in ({value},):\n{body}\nelse:\n{other}",
                f"while {value}:\n{body}\n    break",
                f"try:\n{body}\nexcept ValueError as {a}:\n{other}",
                f"try:\n    raise ValueError\nexcept ValueError as {a}:\n{other}",
                f"match {value}:\n    case ({a}, {b}):\n{textwrap.indent(body, '    ')}\n    case {c}:\n"
                + textwrap.indent(other, "    "),
            ]
    return draw(st.sampled_from(forms))


def _run(source, defined):
    """Run a program; return the error that ended it, or None, and the names of the module at its end."""
    namespace = {name: (1,) for name in defined}
    try:
        exec(source, namespace)
    except Exception as error:  # noqa: BLE001 - any error may end a generated program
        return error, namespace
    return None, namespace


def _find_lacking(source):
    """Return the names without which alone a program ends with a `NameError` for them."""
    lacking = set()
    for name in NAMES:
        error, _ = _run(source, set(NAMES) - {name})
        if isinstance(error, NameError) and error.name == name:
            lacking.add(name)
    return lacking


@settings(max_examples=100)
@given(st.lists(statements(), min_size=1, max_size=3).map("\n".join))
def test_needed_names_are_those_without_which_a_program_fails(source):
    assume(can_compile(source))
    error, namespace = _run(source, NAMES)
    assume(error is None)
    assert set(find_free_names([source])).intersection(NAMES) == _find_lacking(source)
    bound = {name for name in NAMES if name in namespace and namespace[name] != (1,)}
    assert bound <= set(find_made_names([source])) | {name for name in NAMES if f"as {name}" in source}


@settings(max_examples=100)
@given(st.lists(statements(sure=False), min_size=1, max_size=3).map("\n".join))
def test_with_branches_no_needed_name_is_missed(source):
    assume(can_compile(source))
    error, _ = _run(source, NAMES)
    known = {error.name} if isinstance(error, NameError) else set()
    assert _find_lacking(source) - known <= set(find_free_names([source]))

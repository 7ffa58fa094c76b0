"""What is said of names holds on each path through a program: generated programs are run on their paths.

Conditions, loops and errors follow a list of decisions; the paths are all lists up to a length.
"""

import math
import re
import textwrap
from contextlib import contextmanager, suppress

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jupyter_gq.lab.reading.names import find_free_names, find_made_names, find_makers, find_names_read_before

from .programs import can_compile

NAMES = ("a", "b", "c")
#: What stands for the values of earlier cells.
OUTSIDE = object()
#: Most decisions of a path that are tried both ways, and most paths of a program.
MOST_DECISIONS, MOST_PATHS = 8, 150


class Fault(Exception):
    """The error that generated programs raise."""


class Path:
    """One path through a program, by decisions; those after the given ones are "no"."""

    def __init__(self, decisions):
        self.decisions = list(decisions)
        self.taken = []
        self.namespace = Reading()

    def decide(self):
        place = len(self.taken)
        answer = self.decisions[place] if place < len(self.decisions) else False
        self.taken.append(answer)
        return answer

    def fail(self):
        if self.decide():
            raise Fault

    def repeat(self):
        while self.decide():
            yield 1

    @contextmanager
    def quiet(self):
        with suppress(Fault):
            yield

    def run(self, code):
        """Return whether the program ends normally."""
        said = {"yes": self.decide, "fail": self.fail, "rows": self.repeat, "quiet": self.quiet, "plain": plain}
        self.namespace.update(said | {"suppress": suppress, "Fault": Fault, "__name__": "program"})
        try:
            exec(code, self.namespace)
        except (Fault, NameError):
            return False
        return True


@contextmanager
def plain():
    yield 1


class Reading(dict):
    """The namespace of a module that keeps which names of outside are read."""

    def __init__(self):
        super().__init__(dict.fromkeys(NAMES, OUTSIDE))
        self.read = set()

    def __getitem__(self, name):
        value = super().__getitem__(name)
        if value is OUTSIDE:
            self.read.add(name)
        return value


def list_paths(source):
    """Return the names after each path that ends normally, those that these read from outside, and if all were run."""
    code = compile(source, "<program>", "exec")
    waiting, ended, read, count = [[]], [], set(), 0
    while waiting and count < MOST_PATHS:
        path = Path(waiting.pop())
        count += 1
        if path.run(code):
            ended.append({name: path.namespace.get(name) for name in NAMES})
            read |= path.namespace.read
        for place in range(len(path.decisions), min(len(path.taken), MOST_DECISIONS)):
            waiting.append([*path.taken[:place], True])
    return ended, read, not waiting


#: Statements with the names A and B. BODY is replaced by other statements, LOOP by those of a loop, STAR by such as an
#: `except*` may have.
SIMPLE = ("A = 1", "import math as A", "A", "yes() and (A := 1)", "if yes() == (A := 1) < (B := 2): pass")
SIMPLE += ("[(A := x) for x in rows()]",)
BRANCHES = (
    "if yes():\n    BODY\nelse:\n    BODY",
    "if yes():\n    BODY",
    "for A in rows():\n    LOOP",
    "for A in rows():\n    LOOP\nelse:\n    BODY",
    "while yes():\n    LOOP\nelse:\n    BODY",
    "while (A := yes()):\n    LOOP",
    "match yes():\n    case True as A:\n        BODY",
    "class C:\n    global A\n    STAR",
)
ERRORS = (
    "match yes():\n    case A if yes():\n        BODY\n    case B:\n        BODY",
    "try:\n    BODY\nexcept Fault as A:\n    BODY\nelse:\n    BODY",
    "try:\n    BODY\nexcept Exception:\n    BODY",
    "try:\n    BODY\nexcept Fault:\n    BODY\nfinally:\n    STAR",
    "try:\n    BODY\nfinally:\n    STAR",
    "try:\n    STAR\nexcept* Fault as A:\n    STAR\nexcept* NameError:\n    STAR",
    "with suppress(Fault):\n    BODY",
    "with plain() as A, suppress(Exception), plain() as B:\n    BODY",
    "with plain() as A:\n    BODY",
)
UNKNOWN = ("with quiet():\n    BODY",)


@st.composite
def statements(draw, kinds, depth=3, in_loop=False):
    """Return a statement of these kinds."""
    simple, branches = SIMPLE, BRANCHES
    if "errors" in kinds:
        simple, branches = (*simple, "del A", "fail()", "fail()", "raise Fault"), (*branches, *ERRORS)
    if "unknown" in kinds:
        branches += UNKNOWN
    if in_loop and "jumps" in kinds:
        simple += ("break", "continue")
    form = draw(st.sampled_from(branches if depth and draw(st.integers(0, 2)) else simple))
    lines = []
    for line in re.sub(r"\b[AB]\b", lambda _: draw(st.sampled_from(NAMES)), form).split("\n"):
        word = line.strip()
        inner = (kinds - {"jumps"}, False) if word == "STAR" else (kinds, in_loop or word == "LOOP")
        if word in {"BODY", "LOOP", "STAR"}:
            body = "\n".join(draw(st.lists(statements(inner[0], depth - 1, inner[1]), min_size=1, max_size=3)))
            lines.append(textwrap.indent(body, line.removesuffix(word)))
        else:
            lines.append(line)
    return "\n".join(lines)


def programs(*kinds):
    """Return a strategy for programs of these kinds that Python can compile."""
    return st.lists(statements(frozenset(kinds)), min_size=1, max_size=4).map("\n".join).filter(can_compile)


def find_certain(source):
    """Return the names that are said to be certainly bound, of those that the program does not need."""
    return set(NAMES) - find_names_read_before(source, set(NAMES))


def find_bound(names):
    """Return the names that a path has bound."""
    return {name for name, value in names.items() if value is not None and value is not OUTSIDE}


@settings(max_examples=150)
@given(programs("errors", "jumps"))
def test_what_is_said_of_names_holds_on_each_path(source):
    ended, read, _ = list_paths(source)
    made, to_return = set(find_makers([source])), set(find_made_names([source]))
    assert "finally" in source or read <= set(find_free_names([source])), "a finally is read as after no error"
    for names in ended:
        bound = find_bound(names)
        assert find_certain(source) <= bound <= made
        assert {name for name in bound if f"math as {name}" not in source} <= to_return
        assert not {name for name in bound if names[name] is math} & to_return


@settings(max_examples=75)
@given(programs("errors", "jumps", "unknown"))
def test_whatever_swallows_errors_what_a_path_leaves_bound_is_made(source):
    for names in list_paths(source)[0]:
        assert find_bound(names) <= set(find_makers([source]))


@settings(max_examples=75)
@given(programs())
def test_without_errors_and_jumps_all_that_holds_is_said(source):
    ended, _, is_complete = list_paths(source)
    assume(is_complete and ended)
    each = list(map(find_bound, ended))
    assert set(find_makers([source])) - {"C"} == set.union(*each)
    assert find_certain(source) | set(find_free_names([source])) >= set.intersection(*each)

"""Top-level assignments of a literal, such as `lr = 0.1`, which a sweep varies. For Python cells only. Pure.

Rules
-----
- A literal is a number, a text, True, False or None on one line. An f-string, a list or an expression is none.
- Only the literal is replaced, by its position in the syntax tree: formatting and comments of the cell stay.
- `lr, depth = 0.1, 3` assigns a literal to each of the names.
- A name varies in every cell that assigns a literal to it: the replayed cells then agree with the target.
- Proposed are numbers, True, False, None, and texts that choose something, such as "adam" and "bert-base-uncased"; no
  paths, addresses, sentences and secrets. A request may vary these as well.

See docs/decisions/0136-vary-literals-by-their-position.md.
"""

import ast
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.client.environment.secret_names import holds_secret
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.reading import cells
from jupyter_gq.lab.reading.parsing import MOST_CHARACTERS, compile_quietly
from jupyter_gq.lab.reading.path_texts import is_file_name, names_path
from jupyter_gq.lab.reading.work_limit import TooMuchWork, check_fields
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import PlannedAssignment

from .bundle import Step

#: Most jobs of one sweep that a page sends.
MAX_JOBS = 200
_LINE_END = re.compile(rb"\r\n|\r|\n")
#: Lines that IPython reads as magics, commands or questions, and that Python does not know.
_NO_PYTHON = re.compile(r"^([ \t]*+)(?:[%!].*|[\w., \t]++=[ \t]*+[%!].*|.*\?[ \t]*+)$", re.MULTILINE)
#: A text that may be one of several to choose from.
_WORD = re.compile(r"\w[\w.+:@#-]{0,99}")
#: Such a text with the name of an owner before it, as of models on a hub, and the names of variables that hold it.
_HUB_NAME = re.compile(r"(?:\w[\w.-]{0,99}/)?\w[\w.+:@#-]{0,99}")
_OF_HUB = re.compile("model|tokenizer|encoder|backbone|pretrained|dataset|repo", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """An assignment of a literal to a name, at the top level of a cell."""

    name: str
    #: Source of the literal.
    text: str
    #: Number of the line in the cell, from 1.
    line: int
    #: First byte of the literal, and the byte after its last one, in the UTF-8 text of the cell.
    start: int
    end: int


def find_assignments(source: str) -> list[Assignment]:
    """Return the top-level assignments of a literal in a cell, in order; none if the cell cannot be read as Python."""
    tree = _parse(source)
    if tree is None:
        return []
    content = source.encode("utf-8", "surrogatepass")
    lines = [0, *(match.end() for match in _LINE_END.finditer(content))]
    found = []
    for target, value in itertools.chain.from_iterable(map(_list_pairs, tree.body)):
        if not (isinstance(target, ast.Name) and _is_literal(value)):
            continue
        start, end = lines[value.lineno - 1] + value.col_offset, lines[value.lineno - 1] + (value.end_col_offset or 0)
        text = content[start:end].decode("utf-8", "surrogatepass")
        found.append(Assignment(name=target.id, text=text, line=value.lineno, start=start, end=end))
    return found


def replace_literals(source: str, values: Mapping[str, str]) -> str:
    """Return a cell in which each name of `values` is assigned that literal wherever a literal was assigned to it."""
    content = source.encode("utf-8", "surrogatepass")
    for found in reversed(find_assignments(source)):
        if found.name in values:
            new = values[found.name].encode("utf-8", "surrogatepass")
            content = content[: found.start] + new + content[found.end :]
    return content.decode("utf-8", "surrogatepass")


def is_literal(text: str) -> bool:
    """Return whether a text is the source of one literal, with nothing beside it, not even a comment."""
    try:
        check_fields(text)
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, TooMuchWork):
        return False
    place = (node.lineno, node.col_offset, node.end_col_offset)
    return _is_literal(node) and place == (1, 0, len(text.encode("utf-8", "surrogatepass")))


def plan_assignments(steps: Iterable[Step]) -> list[PlannedAssignment]:
    """Return what is proposed to vary in the cells that will run: each name once, as it is assigned last."""
    return [each for each in _list_assignments(steps) if _is_choice(each.name, ast.literal_eval(each.value))]


def _list_assignments(steps: Iterable[Step]) -> list[PlannedAssignment]:
    """Return what can vary in the cells that will run: each name once, as it is assigned last."""
    found: dict[str, PlannedAssignment] = {}
    for step in steps:
        for each in find_assignments(step.source):
            found[each.name] = PlannedAssignment(
                name=each.name, value=each.text, line=each.line, title=cells.make_title(step.written)
            )
    return list(found.values())


def _is_choice(name: str, value: object) -> bool:
    """Return whether the value of a name is one of several that a person may want to compare."""
    if name.startswith("__"):
        return False
    if not isinstance(value, str):
        return True
    word = _HUB_NAME if _OF_HUB.search(name) else _WORD
    return word.fullmatch(value) is not None and not (
        is_file_name(value) or names_path(name) or holds_secret(name, value)
    )


def set_values(steps: Sequence[Step], values: Mapping[str, str]) -> list[Step]:
    """Return the steps with these literals in place of their own."""
    return [replace(step, source=replace_literals(step.source, values)) for step in steps]


def list_points(grid: Mapping[str, Sequence[str]], steps: Sequence[Step]) -> list[dict[str, str]]:
    """Return all combinations of the values in a grid.

    Raises `RefusedRequest` if a name cannot vary, a value is no literal or is given twice, or the number of jobs is 0
    or above `MAX_JOBS`.
    """
    points = math.prod(map(len, grid.values()))  # counted first: each value takes time to read
    if not grid or not 0 < points <= MAX_JOBS:
        raise _refuse(f"The values make {points if grid else 0} jobs, and a sweep has 1 to {MAX_JOBS}.")
    known = {each.name for each in _list_assignments(steps)}
    for name, values in grid.items():
        if name not in known:
            raise _refuse(f"{name} cannot vary: no cell assigns a number, a text, True, False or None to it.")
        wrong = next((value for value in values if not is_literal(value)), None)
        if wrong is not None:
            raise _refuse(f"{name}: {quoted(wrong)} is not a number, a text in quotes, True, False or None.")
        doubled = _find_doubled(values)
        if doubled is not None:
            told = quoted(doubled)
            raise _refuse(f"{name}: {told} is written twice, and the jobs would be the same. Write it once.")
    return [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values())]


def _find_doubled(literals: Sequence[str]) -> str | None:
    """Return the first literal whose value an earlier one has, such as 0.10 after 0.1; None if there is none.

    See docs/decisions/0271-refuse-a-value-that-a-grid-has-twice.md.
    """
    seen = set[str]()
    for literal in literals:
        value = repr(ast.literal_eval(literal))  # 0.0 and -0.0 are equal, but differ in what a cell computes
        if value in seen:
            return literal
        seen.add(value)
    return None


def _refuse(message: str) -> RefusedRequest:
    return RefusedRequest("invalid_grid", message, field="grid")


def _parse(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell, in which magics and commands are empty statements; None if it has an error."""
    if source.lstrip().startswith("%%") or len(source) > MOST_CHARACTERS:
        return None
    for text in (source, _NO_PYTHON.sub(r"\1pass", source)):
        try:
            return compile_quietly(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError, TooMuchWork):
            continue
    return None


def _list_pairs(node: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """Return each target of an assignment with its value; none for `a = b = 1` and for every other statement."""
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [(node.target, node.value)]
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return []
    [target], value = node.targets, node.value
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(value, (ast.Tuple, ast.List)):
        return [(target, value)]
    is_plain = not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    return list(zip(target.elts, value.elts, strict=True)) if is_plain and len(target.elts) == len(value.elts) else []


def _is_literal(node: ast.expr) -> bool:
    """Return whether an expression is a literal on one line; a sign before a number belongs to the number."""
    if node.lineno != node.end_lineno:
        return False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        number = node.operand
        return isinstance(number, ast.Constant) and type(number.value) in (int, float)
    return isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (int, float, str, bool))

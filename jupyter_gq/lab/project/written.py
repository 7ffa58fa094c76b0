"""The expressions in Python code that name files which the code only writes, by its syntax trees. Pure.

Rules
-----
- Written: what is given to a call that writes, makes or removes a file and does not read it, and each part of the path.
- A variable is written if each use of it is, and so is a parameter of a function; then what they are given is as well.
- What moves or shows a path that the code writes reads nothing.
- A question whether a folder is there reads nothing if the same code makes that folder.
- Whatever is not certain may be read.

See docs/decisions/0296-take-along-only-what-may-be-read.md.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jupyter_gq.lab.effects.file_writes import Destination, find_destinations
from jupyter_gq.lab.reading.bindings import Function
from jupyter_gq.lab.reading.call_parts import get_last_name
from jupyter_gq.lab.reading.full_names import Names
from jupyter_gq.lab.reading.magics import list_trees, read_magic
from jupyter_gq.lab.reading.parsing import list_children, list_nodes

#: Functions and methods that make a path of others.
_MAKES_PATH = frozenset(
    {
        *("Path", "PurePath", "PosixPath", "str", "fspath", "abspath", "expanduser", "resolve", "absolute", "join"),
        *("joinpath", "format", "with_suffix", "with_name", "with_stem", "replace", "dirname", "basename"),
    }
)
_MAKES_PATHS_OF_OTHERS = ast.JoinedStr | ast.FormattedValue | ast.BinOp | ast.Attribute | ast.IfExp
#: Most steps from a path that is written to the expression from which it is made.
_MOST_STEPS = 10
_MAKES_FOLDER = frozenset({"makedirs", "mkdir"})
_ASKS = frozenset({"exists", "isdir", "is_dir"})
#: Functions that show a path and do not read the file, and those that move a file, which has been written by then.
_SHOWS = frozenset({"print", "display", "debug", "info", "warning"})
_MOVES = frozenset({"rename", "replace", "move"})


@dataclass(slots=True)
class Written:
    """The expressions of syntax trees that name what is only written, by identity."""

    #: Expressions that name a file or folder as a whole.
    whole: dict[int, Destination] = field(default_factory=dict)
    #: All parts of these, of the values of variables that are only written, and of what such parameters are given; but
    #: not what other calls return, which may read what they are given.
    parts: set[int] = field(default_factory=set)
    #: The trees, without which the identities would mean other expressions.
    trees: Sequence[ast.Module] = ()

    def add(self, node: ast.expr) -> None:
        """Add an expression with all parts from which it makes a path."""
        self.parts.update(id(each) for each in _list_parts(node))


def find_written(trees: Sequence[ast.Module]) -> Written:
    """Return what the code of these trees only writes; the trees must not be changed while the result is used."""
    trees = [each for tree in trees for each in list_trees(tree)]
    nodes = [node for tree in trees for node in list_nodes(tree)]
    names = Names()
    for tree in trees:
        names.add(tree)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    written = Written(trees=trees)
    for destination in (each for call in calls for each in find_destinations(call, names)):
        if destination.node is not None and not destination.is_read:
            written.whole[id(destination.node)] = destination
            written.add(destination.node)
    if written.whole:
        _add_questions(written, calls, names)
        _Uses(nodes, calls).follow(written)
    return written


def _list_parts(node: ast.expr) -> Iterator[ast.AST]:
    """Yield an expression and all parts from which it makes a path or text, without calls that may do more."""
    ahead: list[ast.AST] = [node]
    while ahead:
        each = ahead.pop()
        if not isinstance(each, ast.Call) or _makes_path(each):
            yield each
        if isinstance(each, _MAKES_PATHS_OF_OTHERS) or _makes_path(each):
            ahead += list_children(each)


def _makes_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and get_last_name(node) in _MAKES_PATH


def _add_questions(written: Written, calls: Sequence[ast.Call], names: Names) -> None:
    """Add what is asked for and made: the folder in `if not os.path.isdir("out"): os.makedirs("out")`."""
    makers = [find_destinations(call, names) for call in calls if get_last_name(call) in _MAKES_FOLDER]
    made = {ast.dump(each.node) for found in makers for each in found if each.node is not None}
    for call in calls:
        if get_last_name(call) not in _ASKS:
            continue
        asked = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
        for each in asked:
            if ast.dump(each) in made:
                written.add(each)


def _list_shown(call: ast.Call) -> list[ast.expr]:
    """Return the paths of which a call reads nothing that was there before the code ran."""
    if get_last_name(call) in _MOVES:
        return [*call.args[:1], *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    return call.args if get_last_name(call) in _SHOWS else []


class _Uses:
    """The uses of variables and functions in code."""

    def __init__(self, nodes: Iterable[ast.AST], calls: Sequence[ast.Call]) -> None:
        #: Uses of the value of each variable, by identity, and the values that it is given.
        self._read: dict[str, list[int]] = defaultdict(list)
        self._given: dict[str, list[ast.expr]] = defaultdict(list)
        self._functions: dict[str, list[Function]] = defaultdict(list)
        #: Calls of functions by their names.
        self._called: dict[str, list[ast.Call]] = defaultdict(list)
        #: Variables that are used where nobody follows, as in commands.
        self._lost: set[str] = set()
        self._calls = calls
        for node in nodes:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._read[name].append(id(node))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._given[target.id].append(value)
            case ast.For(target=ast.Name(id=name), iter=ast.List(elts=values) | ast.Tuple(elts=values)):
                self._given[name] += values
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._given[name].append(value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._functions[node.name].append(node)
            case ast.Call():
                self._note_call(node)

    def _note_call(self, call: ast.Call) -> None:
        if isinstance(call.func, ast.Name):
            self._called[call.func.id].append(call)
        magic = read_magic(call)
        if magic is not None:
            self._lost.update(magic.expansions.names)
            parts = (part for each in magic.expansions.expressions for part in ast.walk(each))
            self._lost.update(part.id for part in parts if isinstance(part, ast.Name))

    def follow(self, written: Written) -> None:
        """Add the values of variables and parameters that are only written, and of those from which these are made."""
        shown = {id(part) for call in self._calls for each in _list_shown(call) for part in _list_parts(each)}
        for _ in range(_MOST_STEPS):
            before = len(written.parts)
            for name, values in self._given.items():
                if name not in self._lost and self._is_written(self._read[name], written, shown):
                    for value in values:
                        written.add(value)
            for name, [function, *others] in self._functions.items():
                if not others:
                    self._follow_parameters(name, function, written, shown)
            if len(written.parts) == before:
                break

    def _is_written(self, read: Sequence[int], written: Written, shown: set[int]) -> bool:
        """Return whether a value is only written and shown, and is written at all."""
        return any(each in written.parts for each in read) and all(
            each in written.parts or each in shown for each in read
        )

    def _follow_parameters(self, name: str, function: Function, written: Written, shown: set[int]) -> None:
        """Add what calls of a function give to the parameters that it only writes."""
        places = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        read: dict[str, list[int]] = defaultdict(list)
        for node in list_nodes(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                read[node.id].append(id(node))
        only = {each for each in places if self._is_written(read[each], written, shown)}
        for parameter, default in zip(reversed(places), reversed(function.args.defaults), strict=False):
            if parameter in only:
                written.add(default)
        for call in self._called[name] if only else ():
            by_name = ((each.arg or "", each.value) for each in call.keywords)
            for parameter, value in (*zip(places, call.args, strict=False), *by_name):
                if parameter in only and id(value) not in written.parts:
                    written.whole[id(value)] = Destination(value)
                    written.add(value)

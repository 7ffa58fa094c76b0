"""The names whose values the chosen cells change in place, by their code and that of earlier cells. For Python only.

Rules
-----
- Stored: what is assigned to an attribute or an item, and methods such as `append`; see `changes`.
- Thrown away: a call whose result nobody keeps is made for its effect. Such a call changes what its method is
  called on, or the first argument of a function; see `changing_calls` for what only shows or saves.
- Shown: the last expression of a cell may be there to be shown, so it counts only if its name says that it changes
  something. So does a call whose result is kept.
- Kept in vain: the methods of lists, sets and dicts count also if their result is kept, and so do calls that are only
  tested, as in `x in seen or seen.add(x)`; see `changing_calls`.
- Given: a function that a call is given is called by it; see `given_functions`. What `functools.partial` has made is
  read as the function with all its arguments; see `values`.
- Callbacks: what an object is given now and calls later is changed by what runs the object; see `callbacks`.
- Models: what a changing call is given and is a model by its name or class, such as `trainer.fit(net)`, is changed too.
- Parts: what changes an object also changes the model in it, as `opt.step()` does after `opt = SGD(net.parameters())`.
- Loops: what is certainly changed in a loop may be a part of what the loop goes through.
- Functions and classes of the cells are followed into their bodies, and tell which arguments they change.
- Numbers and texts cannot be changed in place.

See docs/decisions/0482-propose-what-a-call-is-made-for.md and 0496-propose-what-callbacks-change.md.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jupyter_gq.lab.reading.bindings import Function, find_bindings, list_arguments, list_statements
from jupyter_gq.lab.reading.bodies import read_body
from jupyter_gq.lab.reading.call_parts import get_last_name, get_receiver
from jupyter_gq.lab.reading.calls import Definitions
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.full_names import MODULES_BY_USUAL_NAMES, Names
from jupyter_gq.lab.reading.magics import list_trees
from jupyter_gq.lab.reading.parsing import list_nodes

from .callbacks import Holders, is_registering, list_called_now, list_named, list_new, runs_callbacks
from .changes import (
    find_rebound_globals,
    find_root,
    find_stored,
    list_first_parts,
    list_linked,
    list_running,
    list_tested,
    list_thrown_away,
)
from .changing_calls import (
    changes_container,
    is_changing,
    is_class_of_model,
    is_name_of_model,
    is_showing,
    is_training,
    is_without_changes,
    returns_none,
)
from .given_functions import GivenCall, call_without_arguments, list_given_calls
from .values import Values

#: What becomes of the result of a call. A lambda returns it.
_Result = Literal["kept", "returned", "tested", "shown", "thrown away"]
#: Attributes and methods that hand out the parts of a model that are trained.
_PARAMETERS = frozenset({"parameters", "named_parameters", "trainable_variables", "trainable_weights"})
#: Methods that return a part of the object.
_GIVING_PARTS = frozenset({"get", "setdefault", "get_layer", "get_submodule"})
#: What makes a copy of the object that it is given.
_COPIES = frozenset({"copy", "deepcopy", "clone"})
_CHANGING_BUILTINS = frozenset({"setattr", "delattr", "next"})
#: Most functions that are followed, each called by the one before.
_DEEPEST = 20
#: Most bodies that are read anew for the functions that they are given.
_MOST_BODIES = 1000
#: Most given functions that are read because given functions are given them.
_MOST_GIVEN = 10_000


def find_changed_names(before: Iterable[str], targets: Iterable[str]) -> set[str]:
    """Return the names whose values the target cells may change in place; `before` are the cells that ran before.

    Among them are globals that functions of the cells assign anew, and names that the target cells make themselves.
    """
    reader = _Reader()
    for source in before:
        reader.learn(source)
    changed = {name for source in targets for name in reader.read(source)}
    return (reader.add_parts(changed) | reader.registered) - reader.find_unchangeable()


@dataclass(kw_only=True, slots=True)
class _Changes:
    """The changes that the code of one scope makes to the values of names."""

    #: Changed for certain, and changed in all likelihood.
    certain: set[str] = field(default_factory=set)
    likely: set[str] = field(default_factory=set)
    #: Given callbacks, which changes nothing that they hold.
    registered: set[str] = field(default_factory=set)
    #: Names of what a name is a part of: by assignment, and by a loop.
    whole: dict[str, set[str]] = field(default_factory=dict)
    looped: dict[str, set[str]] = field(default_factory=dict)
    #: Callbacks whose changes are among these.
    followed: set[ast.AST] = field(default_factory=set)

    def list_all(self) -> set[str]:
        """Return all changed names, with those of what they are a part of."""
        certain = list_linked(self.certain | self.registered, self.whole, self.looped)
        return certain | list_linked(self.likely, self.whole)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """A function with what decides what its body changes."""

    function: Function | ast.Lambda
    #: Name of the class of a method, "" for a function.
    of: str
    #: The functions that it is given, by the names of its arguments.
    given: frozenset[tuple[str, Function | ast.Lambda]]
    #: Whether the result is thrown away; False if the function is no lambda, since its statements say more.
    is_thrown_away: bool


class _Reader:
    """A reader of cells, in their order, with what it knows of their names."""

    def __init__(self) -> None:
        self._names, self._known = Names(), Definitions()
        self._values, self._holders = Values(), Holders()
        #: Names of objects that the target cells give callbacks, and of those that the last one runs or calls.
        self.registered: set[str] = set()
        self._ran: set[str] = set()
        self._stored: set[str] = set()
        #: Changed names of functions that were read, by what they were read as.
        self._bodies: dict[_Reading, set[str]] = {}
        self._depth = 0
        #: How many given functions are being read, and how many were read that given functions were given.
        self._given_depth = self._read_so_far = 0
        #: Whether names hold models, as far as that was asked since the last cell.
        self._models: dict[str, bool] = {}

    def learn(self, source: str) -> None:
        """Take in what a cell defines and assigns."""
        self._models.clear()
        tree = parse_cell(source)
        for each in list_trees(tree) if tree is not None else []:
            self._names.add(each)
            self._known.add(each)
            for node in list_statements(each.body):
                self._values.learn(node)
            self._holders.learn(each, self._values)

    def read(self, source: str) -> set[str]:
        """Take in a cell, and return the names that the cell changes."""
        self.learn(source)
        tree = parse_cell(source)
        if tree is None:
            return set()
        shown = {id(each.body[-1]) for each in list_trees(tree) if each.body and not source.rstrip().endswith(";")}
        nodes = list(list_running(tree.body))
        stored = {name for node in nodes for name in find_stored(node)}
        self._stored |= stored
        self._ran = set()
        found = self._read_scope(nodes, shown, "", {})
        self.registered |= found.registered
        found.registered = set()
        self._run_held(found, stored)
        return found.list_all()

    def _run_held(self, found: _Changes, stored: set[str]) -> None:
        """Add what the callbacks change of objects that a cell runs; `stored` are names that it may only assign to."""
        done: set[str] = set()
        while ahead := self.add_parts((found.list_all() - stored) | self._ran) - done:
            done |= ahead
            self._run_callbacks((held for name in ahead for held in self._holders.get(name)), "", found)

    def _run_callbacks(self, callbacks: Iterable[ast.expr], own: str, found: _Changes) -> None:
        """Add what callbacks change, and those that they hold, which have not been followed in this scope."""
        ahead = list(callbacks)
        for each in list_new(ahead, found.followed):
            ahead += self._run_callback(each, own, found)

    def _run_callback(self, callback: ast.expr, own: str, found: _Changes) -> Iterable[ast.expr]:
        """Add what a function changes, or an object of which any method may be called; return what it calls itself."""
        methods = self._known.list_methods(callback)
        for method in methods:
            part = ast.Attribute(value=callback, attr=method, ctx=ast.Load())
            self._read_given(call_without_arguments(part), own, found)
        if isinstance(callback, ast.Name) and not self._known.find_called(callback, own):
            found.certain.update([] if self._is_module(callback) or hasattr(builtins, callback.id) else [callback.id])
        if methods:
            return []
        self._read_given(call_without_arguments(callback), own, found)
        if isinstance(callback, ast.Call):
            return list_named(callback, self._values)
        return self._holders.get(callback.id) if isinstance(callback, ast.Name) else []

    def _read_scope(self, nodes: Iterable[ast.AST], shown: set[int], own: str, results: dict[int, _Result]) -> _Changes:
        """Return what the nodes of one scope do; `own` is the class of the method whose body they are.

        `results` tells of some calls what becomes of their results; those of others are added.
        """
        found = _Changes()
        for node in nodes:
            found.certain.update(find_stored(node))
            self._stored.update(find_rebound_globals(node))
            for call in list_tested(node):
                results.setdefault(id(call), "tested")
            match node:
                case ast.Expr(value=value):
                    result: _Result = "shown" if id(node) in shown else "thrown away"
                    results.update((id(call), result) for call in list_thrown_away(value))
                case ast.Call():
                    self._read_call(node, results.get(id(node), "kept"), own, found)
                case ast.For() | ast.AsyncFor() | ast.comprehension():
                    wholes = set(self._list_gone_through(node.iter))
                    for name in _list_names(node.target):
                        found.looped.setdefault(name, set()).update(wholes)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.withitem(context_expr=value, optional_vars=ast.Name(id=name))
                ):
                    found.whole.setdefault(name, set()).update(self._find_whole(value))
        return found

    def _list_gone_through(self, iterated: ast.expr) -> Iterator[str]:
        """Yield the names of what a loop goes through, also in `zip(a, b)`, `models.items()` and `tqdm(a)`."""
        if not isinstance(iterated, ast.Call):
            yield from filter(None, [find_root(iterated)])
        elif isinstance(iterated.func, ast.Attribute) and not self._is_module(iterated.func.value):
            yield from self._list_gone_through(iterated.func.value)
        else:
            for each in iterated.args:
                yield from self._list_gone_through(each)

    def _find_whole(self, value: ast.expr) -> Iterable[str]:
        """Return the name of the object that an expression is, or of which it is a part."""
        root = find_root(value)
        is_item = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant)
        is_part = is_item or isinstance(value, ast.Name | ast.Attribute) or self._is_model(root)
        return [root] if root and is_part else []

    def _read_call(self, call: ast.Call, result: _Result, own: str, found: _Changes) -> None:
        """Add what a call changes."""
        for each in self._values.list_calls(call):
            self._read_whole_call(each, result, own, found)

    def _read_whole_call(self, call: ast.Call, result: _Result, own: str, found: _Changes) -> None:
        """Add what a call changes that is given all its arguments."""
        called = self._known.find_called(call.func, own)
        for function, of in called:
            found.certain.update(
                self._follow(GivenCall(call=call, is_thrown_away=result in ("thrown away", "shown")), function, of)
            )
        if called:
            return
        last = get_last_name(call)
        maker = self._name_maker(call)
        for given in list_given_calls(call, maker):
            self._read_given(given, own, found)
        self._run_callbacks(list_called_now(call, maker, self._values, self._known.functions), own, found)
        if is_registering(call):
            found.registered.add(find_root(call.func))
        elif not last[:1].isupper():
            self._judge_call(call, last, result, found)

    def _judge_call(self, call: ast.Call, last: str, result: _Result, found: _Changes) -> None:
        """Add what a call changes of a function or method that is in no cell, by its name."""
        is_kept = result not in ("shown", "thrown away")
        changes = is_changing(last, is_kept=is_kept) or self._changes_receiver(call, last, result)
        likely = result == "thrown away" and not is_showing(last)
        kind = found.certain if changes else found.likely
        receiver = get_receiver(call)
        if receiver is None or self._is_module(receiver):
            self._ran.update([find_root(call.func)] if receiver is None else [])
            kind.update(self._list_of_function(call, last, changes=changes, likely=likely))
        elif runs_callbacks(last):
            self._ran.update([receiver.id] if isinstance(receiver, ast.Name) else [])
        if receiver is not None and not self._is_module(receiver) and (changes or likely):
            kind.update(filter(None, [find_root(receiver)]))
            kind.update(self._list_models(call))
            if last == "shuffle":
                kind.update(map(find_root, call.args[:1]))
            if isinstance(receiver, ast.Call):
                kind.update(self._list_models(receiver))
                kind.update(map(find_root, [receiver.func] if get_last_name(receiver) in _GIVING_PARTS else []))

    def _read_given(self, given: GivenCall, own: str, found: _Changes) -> None:
        """Add what a function changes that a call was given."""
        self._read_so_far += self._given_depth > 0
        if self._given_depth >= _DEEPEST or self._read_so_far > _MOST_GIVEN:
            return
        self._given_depth += 1
        self._read_calls(given, own, found)
        self._given_depth -= 1

    def _read_calls(self, given: GivenCall, own: str, found: _Changes) -> None:
        for whole in self._values.list_calls(given.call):
            functions = self._known.find_called(whole.func, own)
            for function, of in functions:
                found.certain.update(self._follow(replace(given, call=whole), function, of))
            if not functions and isinstance(whole.func, ast.Attribute):
                self._read_whole_call(whole, "thrown away" if given.is_thrown_away else "kept", own, found)

    def _name_maker(self, call: ast.Call) -> str:
        """Return the name of the class of the object a method is called on; for a function, its full name.

        If the class is not known, this is the name of the object.
        """
        receiver = get_receiver(call)
        if receiver is None or self._is_module(receiver):
            return self._names.spell(call.func)
        if isinstance(receiver, ast.Call):
            return get_last_name(receiver)
        root = find_root(receiver)
        made = self._values.by_name.get(root, [])[-1:]
        return get_last_name(made[0]) if made and isinstance(made[0], ast.Call) else root

    def _changes_receiver(self, call: ast.Call, last: str, result: _Result) -> bool:
        """Return whether a call changes what its method is called on, although its result is kept."""
        receiver = get_receiver(call)
        if receiver is None or self._is_module(receiver):
            return False
        if result in ("tested", "returned") and returns_none(last, for_certain=result == "returned"):
            return True
        return self._applies(call, last) or (changes_container(last) and self._values.is_container(receiver))

    def _applies(self, call: ast.Call, last: str) -> bool:
        """Return whether a call has a function change each part of a model; a table would return a new one."""
        receiver = get_receiver(call)
        return last == "apply" and receiver is not None and self._is_model(find_root(receiver))

    def _list_of_function(self, call: ast.Call, last: str, *, changes: bool, likely: bool) -> Iterator[str]:
        """Yield what a function changes that is in no cell, by its name."""
        for each in call.keywords:
            if each.arg == "out":
                yield find_root(each.value)
        if isinstance(call.func, ast.Name) and hasattr(builtins, call.func.id):
            changes, likely = call.func.id in _CHANGING_BUILTINS, False
        likely = likely and not is_without_changes(self._names.spell(call.func))
        if changes or likely:
            yield from self._list_models(call)
            if not is_training(last):
                yield from map(find_root, call.args[:1])

    def _list_models(self, call: ast.Call) -> Iterator[str]:
        """Yield the names of the models that a call is given, as they are or by their parameters."""
        for given in [*call.args, *(keyword.value for keyword in call.keywords)]:
            yield from self._list_models_in(given)

    def _list_models_in(self, given: ast.expr) -> Iterator[str]:
        for node in list_first_parts(given):
            if isinstance(node, ast.Attribute) and node.attr in _PARAMETERS:
                yield find_root(node)
        held = [given]
        while held:
            node = held.pop()
            if isinstance(node, ast.List | ast.Tuple):
                held += node.elts
            elif isinstance(node, ast.Dict):
                held += node.values
            elif isinstance(node, ast.Name) and self._is_model(node.id):
                yield node.id

    def _follow(self, given: GivenCall, function: Function | ast.Lambda, of: str) -> Iterator[str]:
        """Yield the names that a call of a function of the cells changes, of globals and of what it is given."""
        call, arguments = given.call, function.args
        places = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
        values = list(call.args)
        if of:
            receiver = get_receiver(call)
            values.insert(0, receiver if receiver is not None else call.func)
        pairs = [*zip(places, values, strict=False), *((each.arg, each.value) for each in call.keywords if each.arg)]
        functions = [(name, self._find_function(value)) for name, value in pairs]
        reading = _Reading(
            function=function,
            of=of,
            given=frozenset((name, each) for name, each in functions if each is not None),
            is_thrown_away=given.is_thrown_away and isinstance(function, ast.Lambda),
        )
        changed = self._read_function(reading)
        yield from changed - {each.arg for each in list_arguments(arguments)}
        for name, value in pairs:
            if name in changed:
                yield from self._list_gone_through(value) if given.takes_elements else [find_root(value)]

    def _find_function(self, value: ast.expr) -> Function | ast.Lambda | None:
        """Return the function that an expression is, without a call; None if it is none that the cells define."""
        if isinstance(value, ast.Lambda):
            return value
        return self._known.functions.get(value.id) if isinstance(value, ast.Name) else None

    def _read_function(self, reading: _Reading) -> set[str]:
        """Return the globals and arguments that a function changes; none for a function that is called too deep."""
        if len(self._bodies) >= _MOST_BODIES:
            reading = replace(reading, given=frozenset())
        if reading not in self._bodies and self._depth < _DEEPEST:
            self._bodies[reading] = set()  # a function that calls itself
            self._depth += 1
            self._bodies[reading] = self._read_body(reading)
            self._depth -= 1
        return self._bodies.get(reading, set())

    def _read_body(self, reading: _Reading) -> set[str]:
        known, function = self._known, reading.function
        hidden = known.functions.keys() & {each.arg for each in list_arguments(function.args)}
        if hidden or reading.given or read_body(function).functions:  # known while this one runs
            self._known = known.copy()
            for name in hidden:
                del self._known.functions[name]
            self._known.functions.update(reading.given)
            self._known.add(function)
        changed = self._find_changed_by(reading)
        self._known = known
        return changed

    def _find_changed_by(self, reading: _Reading) -> set[str]:
        function = reading.function
        body: Sequence[ast.AST] = function.body if isinstance(function, Function) else [function.body]
        nodes = list(list_running(body))
        bindings = find_bindings(body)
        own = bindings.names - {each.arg for each in list_arguments(function.args)}
        assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        rebound = bindings.of_module & assigned
        self._stored |= rebound
        results: dict[int, _Result] = {}
        if isinstance(function, ast.Lambda):
            result: _Result = "shown" if reading.is_thrown_away else "returned"
            results = {id(call): result for call in list_thrown_away(function.body)}
        return (self._read_scope(nodes, set(), reading.of, results).list_all() - own) | rebound

    def add_parts(self, changed: set[str]) -> set[str]:
        """Return changed names with those of the models in their objects, and other names of the same objects."""
        found: set[str] = set()
        ahead = list(changed)
        same: dict[str, set[str]] = {}
        for name, values in self._values.by_name.items():
            for value in values:
                if isinstance(value, ast.Name):
                    same.setdefault(value.id, set()).add(name)
        while ahead:
            name = ahead.pop()
            if name and name not in found:
                found.add(name)
                ahead += same.get(name, ())
                ahead += [
                    part for value in self._values.by_name.get(name, []) for part in self._list_parts(name, value)
                ]
        return found

    def _list_parts(self, name: str, value: ast.expr) -> Iterable[str]:
        """Return the names of what is changed with the value of a name."""
        if not isinstance(value, ast.Call):
            root = find_root(value)
            return [root] if isinstance(value, ast.Name) or self._is_model(root) else []
        last = get_last_name(value)
        is_pipeline = "pipeline" in last.lower()
        if last in _COPIES or (self._names.spell(value.func).startswith("sklearn.") and not is_pipeline):
            return []  # what is made by scikit-learn copies estimators, except into pipelines
        holds = is_pipeline or last[:1].isupper() or self._is_model(name)
        return self._list_models(value) if holds else []

    def _is_module(self, node: ast.expr) -> bool:
        """Return whether an expression is a module, or a part of one."""
        root = find_root(node)
        return root in self._names.modules and root not in self._names.own

    def _is_model(self, name: str) -> bool:
        """Return whether a name holds what is trained, or what trains it, by itself or by its value."""
        if name not in self._models:
            values = self._values.by_name.get(name, [])
            self._models[name] = bool(name) and (is_name_of_model(name) or any(map(self._makes_model, values)))
        return self._models[name]

    def _makes_model(self, value: ast.expr) -> bool:
        if not isinstance(value, ast.Call):
            return False
        last = get_last_name(value)
        if last == "from_pretrained" and isinstance(value.func, ast.Attribute):
            last = self._names.spell(value.func.value).rpartition(".")[2]
        defined = self._known.classes.get(last)
        bases = (
            [last] if defined is None else [getattr(base, "attr", getattr(base, "id", "")) for base in defined.bases]
        )
        return any(map(is_class_of_model, bases))

    def find_unchangeable(self) -> set[str]:
        """Return the names of modules, of functions and classes, and of values that cannot be changed in place."""
        defined = {*self._known.functions, *self._known.classes}
        modules = set(self._names.modules) - self._names.own
        return (self._values.list_constant() | defined) - self._stored | modules | MODULES_BY_USUAL_NAMES | {""}


def _list_names(target: ast.expr) -> Sequence[str]:
    """Return the names to which a target assigns."""
    return [node.id for node in list_nodes(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]

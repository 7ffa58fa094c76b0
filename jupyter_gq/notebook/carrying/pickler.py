"""The pickler of variables that a job takes along, on top of cloudpickle, and what it notices on its way.

Rules
-----
1. By name: a value that is itself one of the variables is written as that variable's name. So two variables that hold
   one object hold one object in the job as well.
2. Live globals: a function of the notebook looks its globals up in the namespace of the job. They are not copied into
   its pickle; their names are told, so that they go along as variables.
3. Refused, not guessed: an open file is refused even where cloudpickle would copy its content.
4. Noticed: each object that code may change, by its identity, whether a value is in the memory of a GPU, which modules
   the loading will import, and what the job gets otherwise: an empty cache, and arrays with memory of their own. In a
   flat container of numbers and texts there is nothing to notice.
5. One module: what a pickle holds of a module, its functions and the module itself, has one dict of globals. That of a
   module which the job imports is the imported one.

See docs/decisions/0137-pickle-each-variable-and-keep-shared-objects-together.md, 0210-carry-a-module-as-one.md,
0224-tell-what-was-done-with-a-variable-that-stays.md and docs/decisions/0231-tell-what-pickles-lose-in-silence.md.
"""

from __future__ import annotations

import copyreg
import enum
import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from ..cached_functions import CachedFunction, reduce_cached  # noqa: TID252 - in a kernel this package has another name
from .gradients import keep_gradient
from .module_globals import ModulesInPickle
from .names import find_globals, find_nonlocals

if TYPE_CHECKING:
    from types import ModuleType as _Module

#: Types whose values are no objects of their own: sharing them means nothing. The check must be fast.
_PLAIN = frozenset(
    {
        *(int, float, complex, bool, type(None), str, bytes, tuple, frozenset, range, slice, type(...)),
        *(CodeType, BuiltinFunctionType, ModuleType, pickle.PickleBuffer),
    }
)
#: Types whose values hold nothing, and types of values that hold others and nothing else.
_ATOMS = frozenset({int, float, complex, bool, type(None), str, bytes})
_SEQUENCES = frozenset({list, tuple, set, frozenset})
#: Types whose values are imported by their module and name.
_IMPORTED = (type, FunctionType, BuiltinFunctionType, ModuleType)
#: What a class inherits whose instances are equal to none but themselves, or whose attributes can be assigned.
_HASH_OF_IDENTITY: object = object.__hash__
_FREE_ASSIGNMENT: object = object.__setattr__
#: What PyTorch's tensors hold, which warns of its age if it is asked where it is.
_IN_TENSORS = frozenset({"TypedStorage"})
#: What stands in a pickle for the namespace of the job.
NAMESPACE = ("namespace", "")


class OpenFile(Exception):
    """A value that holds an open file."""


class SharedVariable(Exception):
    """A function whose variable, of a function around it, another function in the pickle assigns or reads."""


class Writable(Protocol):
    """The file into which a pickle is written."""

    def write(self, content: bytes) -> int:
        """Write some bytes; return their number."""


@dataclass(slots=True)
class Noticed:
    """The observations of a pickler while it wrote one pickle."""

    #: Variables that stand in the pickle by their names, also functions and classes that nobody has asked for.
    needs: set[str] = field(default_factory=set)
    #: Names of globals that functions in the pickle use.
    uses: set[str] = field(default_factory=set)
    #: Objects in the pickle that code may change, by identity; kept, so that no identity is used twice.
    objects: dict[int, object] = field(default_factory=dict)
    on_gpu: bool = False
    #: Whether the pickle holds a function with a cache that is not empty.
    has_cache: bool = False
    #: Identities of the arrays in the pickle, by the identity of the object that owns their memory.
    memory: dict[int, set[int]] = field(default_factory=dict)
    #: The owners of that memory, kept so that no identity is used twice.
    owners: list[object] = field(default_factory=list)
    #: Top-level modules whose classes and functions stand in the pickle by name.
    modules: set[str] = field(default_factory=set)


class Variables:
    """The variables that are known to go along, found by the identity of their values."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.namespace = namespace
        self._names: dict[int, str] = {}

    def add(self, name: str) -> None:
        """Let values that are this variable's be written as its name."""
        value = self.namespace[name]
        if type(value) not in _PLAIN:
            self._names.setdefault(id(value), name)

    def find(self, value: object) -> str | None:
        """Return the name of the variable with this very value; None if there is none."""
        name = self._names.get(id(value))
        if name is None and isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            own = value.__name__
            if self.namespace.get(own) is value:  # a function or class that a cell defines goes along by its name
                self.add(own)
                return own
        return name


def pickle_together(names: Sequence[str], file: Writable, variables: Variables) -> Noticed:
    """Write the named variables as one pickle, a dict by name; return what was noticed. Raises any error of pickling.

    A kernel without cloudpickle cannot pickle functions and classes of cells.
    """
    values = {name: variables.namespace[name] for name in names}
    if all(map(_is_flat, values.values())):
        noticed = Noticed()
        for value in values.values():
            _notice(value, noticed)
        pickle.Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(values)
        return noticed
    cloudpickle = import_cloudpickle()
    watch = _Watch(
        variables, values, ModulesInPickle(cloudpickle.list_registry_pickle_by_value() if cloudpickle else ())
    )
    base: type[pickle.Pickler] = pickle.Pickler if cloudpickle is None else cloudpickle.Pickler

    class WatchedPickler(base):  # type: ignore[misc, valid-type]
        """The pickler of this kernel, with our say on each value."""

        persistent_id = watch.name

        def reducer_override(self, value: object) -> object:
            reduced = watch.reduce(value)
            if reduced is None and cloudpickle is not None:
                watch.name_globals(value, self.globals_ref)
                reduced = super().reducer_override(value)
                watch.note_globals(value, reduced)
            if reduced is None or reduced is NotImplemented:
                return _reduce_hashable(value, getattr(self, "dispatch_table", copyreg.dispatch_table), watch.noticed)
            return reduced

    WatchedPickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(values)
    return watch.noticed


class _Watch:
    """The observer of the values that a pickler meets, which also names variables in place of values."""

    def __init__(self, variables: Variables, values: Mapping[str, object], modules: ModulesInPickle) -> None:
        self._variables, self._values, self._modules = variables, values, modules
        self._own = {id(value) for value in values.values()}
        #: Taken by cloudpickle for the globals of functions; it has an entry because cloudpickle fills an empty dict.
        self._marker = {"__name__": "__main__"}
        self.noticed = Noticed()
        #: Variables of the functions around the functions in the pickle, and those that one of these assigns.
        self._cells: set[int] = set()
        self._assigned: set[int] = set()

    def name(self, value: object) -> tuple[str, str] | None:
        """Return what is written in place of a value; None if the value itself is written."""
        if type(value) in _PLAIN or value is self._values:
            return None
        if value is self._marker:
            return NAMESPACE
        name = None if id(value) in self._own else self._variables.find(value)
        if name is None:
            _notice(value, self.noticed)
            return None
        self.noticed.needs.add(name)
        return ("variable", name)

    def reduce(self, value: object) -> object:
        """Return how a cached function, or a module that the job cannot import, is written; None for other values."""
        if isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO)):
            raise OpenFile
        if isinstance(value, _IMPORTED):
            self._note_module(value)
        reduced = self._modules.reduce(value) if isinstance(value, ModuleType) else reduce_cached(value)
        if reduced is not None and isinstance(value, CachedFunction) and value.cache_info().currsize:
            self.noticed.has_cache = True
        if reduced is not None and isinstance(value, ModuleType):
            self._note_shared(vars(value))
        return reduced

    def name_globals(self, value: object, stand_ins: dict[int, object]) -> None:
        """Choose what cloudpickle writes for the globals of a function, by their identity."""
        if isinstance(value, FunctionType) and id(value.__globals__) not in stand_ins:
            own = value.__globals__ is self._variables.namespace
            stand_ins[id(value.__globals__)] = self._marker if own else self._modules.name_globals(value.__globals__)

    def note_globals(self, value: object, reduced: object) -> None:
        """Note the globals of a function that is written by value, and remove copies of those that the job has."""
        if not isinstance(value, FunctionType) or reduced is NotImplemented:
            return
        if value.__globals__ is self._variables.namespace:
            self._note_cells(value)
            self.noticed.uses.update(find_globals(value))
            _forget_globals(reduced)
        elif (module := self._modules.find_imported(value.__globals__)) is not None:
            self._note_module(module)
            _forget_globals(reduced)
        else:
            self._note_shared(value.__globals__)

    def _note_module(self, value: object) -> None:
        """Note the top-level module of a class, a function or a module."""
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            self.noticed.modules.add(name.partition(".")[0])

    def _note_shared(self, module_globals: dict[str, object]) -> None:
        self.noticed.objects[id(module_globals)] = module_globals

    def _note_cells(self, function: FunctionType) -> None:
        """Note the variables of the functions around a function of the notebook.

        Raises `SharedVariable` if it shares one with another function, and `nonlocal` lets one of them assign it:
        cloudpickle gives each function a variable of its own.
        """
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        self.noticed.objects.update({id(cell): cell for cell in cells.values()})
        assigned = {id(cells[name]) for name in find_nonlocals(function)}
        others = self._assigned & {id(cell) for cell in cells.values()}
        if others or assigned & self._cells:
            raise SharedVariable
        self._assigned |= assigned
        self._cells |= {id(cell) for cell in cells.values()}


def _forget_globals(reduced: object) -> None:
    """Remove the copies of globals from cloudpickle's reduction of a function."""
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    slots = state[1] if isinstance(state, tuple) and len(state) == 2 else None
    if isinstance(slots, dict) and "__globals__" in slots:
        slots["__globals__"] = {}


def _is_flat(value: object) -> bool:
    """Return whether a value is a number, a text or a container of nothing else, in which there is nothing to notice.

    The pickler alone writes millions of them while our say on each would take seconds.
    """
    kind = type(value)
    if kind in _SEQUENCES:
        return _are_atoms(cast("Iterable[object]", value))
    if isinstance(value, dict) and kind is dict:
        return _are_atoms(value) and _are_atoms(value.values())
    return kind in _ATOMS


def _are_atoms(values: Iterable[object]) -> bool:
    """Return whether these values are numbers and texts: neighbours have mostly one type, which is looked up once."""
    return all(kind in _ATOMS for kind, _ in groupby(values, type))


def _notice(value: object, noticed: Noticed) -> None:
    """Note a value that has no hash, which code may change, and one in the memory of a GPU."""
    kind = type(value)
    if isinstance(value, (type, FunctionType, enum.Enum)):
        return
    if kind.__hash__ is None:
        noticed.objects[id(value)] = value
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        owner = _find_owner(value)
        noticed.memory.setdefault(id(owner), set()).add(id(value))
        noticed.owners.append(owner)
    is_array = hasattr(kind, "is_cuda") or hasattr(kind, "__cuda_array_interface__")
    if not noticed.on_gpu and is_array and kind.__name__ not in _IN_TENSORS:
        noticed.on_gpu = _is_on_gpu(value)


def _find_owner(array: object) -> object:
    """Return the object that owns the memory of an array: the array itself, unless it is a view of another one."""
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array


def _reduce_hashable(value: object, reducers: Mapping[type, Callable[..., object]], noticed: Noticed) -> object:
    """Return how pickle itself writes a value that has a hash and that code may change; NotImplemented for others.

    Such values are noted, unless pickle writes them by names alone, such as `numpy.sin`: these are the same in any job.
    """
    kind = type(value)
    if kind.__hash__ is None or isinstance(value, (type, FunctionType, enum.Enum)) or not _may_change(value):
        return NotImplemented
    reduced = reducers[kind](value) if kind in reducers else value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    is_by_name = isinstance(reduced, str) or (isinstance(reduced, tuple) and reduced[0] is getattr)
    if not is_by_name:
        noticed.objects[id(value)] = value
    return keep_gradient(value, reduced)


def _may_change(value: object) -> bool:
    """Return whether a value with a hash may differ from one that is equal to it, now or later."""
    kind = type(value)
    if hasattr(value, "__dict__") or kind.__hash__ is _HASH_OF_IDENTITY:
        return True
    has_slots = any(getattr(each, "__slots__", ()) for each in kind.__mro__)
    return has_slots and kind.__setattr__ is _FREE_ASSIGNMENT


def _is_on_gpu(value: object) -> bool:
    """Return whether an array is in the memory of a GPU: PyTorch says so itself, others by CUDA's interface."""
    told = getattr(value, "is_cuda", None)
    return told if isinstance(told, bool) else hasattr(value, "__cuda_array_interface__")


def import_cloudpickle() -> _Module | None:
    """Return the module cloudpickle; None if this environment lacks it."""
    try:
        import cloudpickle
    except ImportError:
        return None
    module: ModuleType = cloudpickle
    return module

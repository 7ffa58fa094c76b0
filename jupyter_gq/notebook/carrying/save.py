"""Saving of the variables that a job takes along, in the user's kernel: each on its own, with a reason if it stays.

Rules
-----
1. Fixpoint: to the names that the cell uses come the globals of the functions and classes among them, and so on.
2. One by one: what cannot be pickled has a reason, and does not keep the others from going along.
3. Together: variables that share an object which code may change are pickled once more as one, so that the job has one
   object as well.
4. Stays: whatever holds a variable that stays stays too. The cells that make such variables run in the job instead, so
   what these cells need goes along.

See docs/decisions/0137-pickle-each-variable-and-keep-shared-objects-together.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from ..save_results import describe_error, limited_recursions, own_modules_by_value  # noqa: TID252 - in a kernel this package has another name
from .names import is_history, is_present_anyway
from .order import order_groups
from .pickler import Noticed, OpenFile, SharedVariable, Variables, import_cloudpickle, pickle_together

_LONGEST_REASON, _LONGEST_TYPE, _LONGEST_NAME = 500, 200, 255
_UNKNOWN = "The kernel has no variable of this name."
_LONG = f"Its name has more than {_LONGEST_NAME} characters."
_OF_HISTORY = "It belongs to the history of this kernel, which a job does not have."


class TooManyBytes(Exception):
    """A pickle that is larger than the bytes that are left."""


@dataclass(kw_only=True, slots=True)
class Saved:
    """A variable with the size of its pickle, or the reason why it stays."""

    name: str
    #: Empty if the namespace has no such name.
    type: str = ""
    bytes: int = 0
    reason: str = ""
    noticed: Noticed = field(default_factory=Noticed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The variables to save, and where."""

    names: Sequence[str]
    #: Folder of the pickles.
    folder: str
    #: Most bytes of all pickles.
    limit: int
    #: The notebook's folder, whose modules are pickled by value.
    cwd: str
    #: Names that the cells need which make a variable, by that variable.
    makers: Mapping[str, Sequence[str]]
    #: Reasons of variables that stay in any case.
    staying: Mapping[str, str]


def main(text: str) -> None:
    """Save variables of the user's namespace as a JSON request says, and write the report `report.json`."""
    import __main__

    request = Request(**json.loads(text))
    _write_json(os.path.join(request.folder, "began.json"), {})
    report = save(vars(__main__), request)
    _write_json(os.path.join(request.folder, "report.json"), report)


def save(namespace: Mapping[str, object], request: Request) -> dict[str, object]:
    """Save the variables; return the report, with an entry for each variable and one for each pickle."""
    saving = _Saving(namespace, request)
    with own_modules_by_value(request.cwd), limited_recursions():
        saving.run()
    return {
        "python": "{}.{}".format(*sys.version_info),
        "executable": sys.executable,
        "modules": sorted(saving.list_modules()),
        "path": [os.path.abspath(each) for each in sys.path if isinstance(each, str)],
        "variables": [
            {"name": each.name, "type": each.type, "bytes": each.bytes, "gpu": each.noticed.on_gpu, "why": each.reason}
            for each in saving.found.values()
        ],
        "caches": [each.name for each in saving.list_going() if each.noticed.has_cache],
        "views": find_views(saving.list_going()),
        "pickles": [
            {"names": names, "file": file_of(names), "bytes": size, "needs": sorted(needs)}
            for names, (size, needs) in saving.list_files()
        ],
    }


class _Saving:
    """The variables that were found so far, and the pickles that were written."""

    def __init__(self, namespace: Mapping[str, object], request: Request) -> None:
        self._namespace, self._request = namespace, request
        self._variables = Variables(namespace)
        self.found: dict[str, Saved] = {}
        #: Bytes of each pickle, and the variables that it holds by name only.
        self.files: dict[tuple[str, ...], tuple[int, set[str]]] = {}

    def run(self) -> None:
        """Save the names of the request and all that they use, until nothing is missing."""
        waiting = list(self._request.names)
        for name in waiting:
            if not self._explain_unsaved(name):
                self._variables.add(name)
        while True:
            self._save_each(waiting)
            self._spread_reasons()
            staying = self._list_staying()
            self._arrange_files()
            self._spread_reasons()
            waiting = [name for each in self._list_staying() for name in self._list_needed(each)]
            waiting = [name for name in waiting if self._is_new(name)]
            if not waiting and staying == self._list_staying():
                return

    def list_modules(self) -> set[str]:
        """Return the top-level modules that the loading of the pickles imports."""
        return {module for each in self.list_going() for module in each.noticed.modules}

    def list_files(self) -> list[tuple[tuple[str, ...], tuple[int, set[str]]]]:
        """Return the names, bytes and needs of each pickle, in the order in which they should be loaded."""
        used = {each.name: each.noticed.needs | each.noticed.uses for each in self.found.values()}
        return [(names, self.files[names]) for names in order_groups(list(self.files), used, self._namespace)]

    def _is_new(self, name: str) -> bool:
        return name not in self.found and not is_present_anyway(name, self._namespace)

    def _list_needed(self, name: str) -> Sequence[str]:
        """Return the names that the cells which make this variable read.

        If no cell assigns the variable, the cells with `from x import *` count as those which make it.
        """
        makers = self._request.makers
        return makers.get(name) or makers.get("*", ())

    def _list_staying(self) -> list[str]:
        return [each.name for each in self.found.values() if each.reason]

    def _save_each(self, waiting: list[str]) -> None:
        """Save these variables one by one, and those that they use."""
        while waiting:
            name = waiting.pop(0)
            if not self._is_new(name):
                continue
            self.found[name] = saved = Saved(
                name=name,
                type=_name_type(self._namespace[name]) if name in self._namespace else "",
                reason=self._explain_unsaved(name),
            )
            if not saved.reason:
                self._variables.add(name)
                noticed = self._write((name,))
                if noticed is not None:
                    saved.noticed, saved.bytes = noticed, self.files[name,][0]
                    waiting += sorted(noticed.uses | noticed.needs)

    def _explain_unsaved(self, name: str) -> str:
        """Return why a variable stays although nobody has tried to pickle it; "" if it should be tried."""
        if name in self._request.staying:
            return self._request.staying[name]
        if is_history(name):
            return _OF_HISTORY
        if len(name) > _LONGEST_NAME:
            return _LONG
        return "" if name in self._namespace else _UNKNOWN

    def _spread_reasons(self) -> None:
        """Let each variable stay that uses a variable which stays, and so on, with a reason that names the latter."""
        waiting = self._list_staying()
        while waiting:
            gone = self.found[waiting.pop()]
            for each in self.found.values():
                if not each.reason and gone.name in each.noticed.needs:
                    each.reason = f"It holds {gone.name}, which stays: {gone.reason}"[:_LONGEST_REASON]
                    waiting.append(each.name)

    def _arrange_files(self) -> None:
        """Write one pickle for each group of variables that share objects, and remove all others."""
        groups = [tuple(each.name for each in group) for group in find_groups(self.list_going())]
        for names in [names for names in self.files if names not in groups]:
            del self.files[names]
            _remove(os.path.join(self._request.folder, file_of(names)))
        for names in groups:
            if names not in self.files:
                self._write(names)

    def list_going(self) -> list[Saved]:
        """Return the variables that do not stay."""
        return [each for each in self.found.values() if not each.reason]

    def _write(self, names: tuple[str, ...]) -> Noticed | None:
        """Write a pickle; return what was noticed, None if that failed, which is then the reason of each variable."""
        left = self._request.limit - sum(size for size, _ in self.files.values())
        path = os.path.join(self._request.folder, file_of(names))
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "wb") as file:
                counted = _CountedFile(file, left)
                noticed = pickle_together(names, counted, self._variables)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - pickling runs code of any library, which may raise anything
            _remove(path)
            for name in names:
                self.found[name].reason = _explain(error, left)
            return None
        self.files[names] = counted.size, noticed.needs - set(names)
        return noticed


class _CountedFile:
    """A file that counts what is written to it, and refuses more than `limit` bytes."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit = file, limit
        self.size = 0

    def write(self, content: bytes | pickle.PickleBuffer) -> int:
        """Write some bytes and return their number; raise `TooManyBytes` above the limit."""
        size = memoryview(content).nbytes
        self.size += size
        if self.size > self._limit:
            raise TooManyBytes
        self._file.write(content)
        return size


def find_groups(variables: Sequence[Saved]) -> list[list[Saved]]:
    """Return the variables in groups: those are together that share an object, or hold each other in a circle."""
    edges: dict[str, set[str]] = {each.name: set() for each in variables}
    first: dict[int, str] = {}
    for each in variables:
        edges[each.name] |= each.noticed.needs & edges.keys()
        for identity in each.noticed.objects:
            other = first.setdefault(identity, each.name)
            if other != each.name:
                edges[other].add(each.name)
                edges[each.name].add(other)
    reached = {name: _reach(name, edges) for name in edges}
    groups: list[list[Saved]] = []
    for each in variables:
        group = next((g for g in groups if g[0].name in reached[each.name] and each.name in reached[g[0].name]), None)
        if group is None:
            groups.append([each])
        else:
            group.append(each)
    return groups


def find_views(variables: Sequence[Saved]) -> list[list[str]]:
    """Return the names of variables whose arrays share memory, for each memory that several of them share.

    Variables that hold the same array, and not arrays that share memory, go along together, and share it in the job.
    """
    names: dict[int, list[str]] = {}
    arrays: dict[int, set[int]] = {}
    for each in variables:
        for owner, ids in each.noticed.memory.items():
            names.setdefault(owner, []).append(each.name)
            arrays.setdefault(owner, set()).update(ids)
    shared = [tuple(group) for owner, group in names.items() if len(group) > 1 and len(arrays[owner]) > 1]
    return [list(group) for group in dict.fromkeys(shared)]


def _reach(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def file_of(names: Sequence[str]) -> str:
    """Return the name of the file with the pickle of these variables."""
    return hashlib.sha256(" ".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".pickle"


def _name_type(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"[:_LONGEST_TYPE].encode("utf-8", "backslashreplace").decode()


def _explain(error: BaseException, left: int) -> str:
    """Return the reason in one sentence for a value that stays; `left` is the number of bytes that were left."""
    if isinstance(error, TooManyBytes):
        return f"It has more than the {left / 2**20:.1f} MiB that are left for the variables of this job."
    if isinstance(error, OpenFile):
        return "It holds an open file."
    if isinstance(error, SharedVariable):
        return (
            "Its functions share a variable that one of them assigns with nonlocal, and pickles would make two of it."
        )
    if isinstance(error, OSError):
        return f"It could not be written: {error.strerror or describe_error(error)}."
    lacks = "" if import_cloudpickle() else " This environment lacks the package cloudpickle, which can pickle more."
    return f"It cannot be pickled: {describe_error(error)}.{lacks}"


def _write_json(path: str, content: object) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(content))  # `json.dump` writes each word by itself


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)

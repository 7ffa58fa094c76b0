"""Loading of the variables that a job took along, in the job's kernel before its first cell.

Rules
-----
- Same environment: only the minor version of Python that made a pickle loads it, with the packages of the versions
  that made it. Another version may crash in a later call.
- Live globals: functions of the notebook find their globals in the namespace of this kernel.
- All or nothing: if one variable cannot be loaded, none is defined and no cell runs.
"""

from __future__ import annotations

import builtins
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from ..unpickler import Unpickler  # noqa: TID252 - in a kernel this package has another name
from .packages import explain_difference
from .pickler import NAMESPACE


class Unloadable(RuntimeError):
    """Variables that cannot be loaded here; the text says why."""


def main(text: str) -> None:
    """Load the variables of a JSON request into the user's namespace; write "" or the reason of a failure to a file."""
    import __main__

    request = json.loads(text)
    try:
        require_environment(request["python"], request["packages"])
        vars(__main__).update(load(request["folder"], request["pickles"], vars(__main__)))
        reason = ""
    except Unloadable as error:
        reason = str(error)
    _write_text(request["report"], reason)


def require_environment(python: str, packages: Mapping[str, str]) -> None:
    """Raise `Unloadable` if Python has another minor version here, or if one of these packages has another version."""
    here = "{}.{}".format(*sys.version_info)
    if python != here:
        raise Unloadable(f"they were made by Python {python}, and the job has Python {here}")
    if why := explain_difference(packages):
        raise Unloadable(why)


def load(folder: str, pickles: Sequence[Mapping[str, object]], namespace: dict[str, object]) -> dict[str, object]:
    """Return the variables in these pickles by name; raise `Unloadable` if one cannot be loaded."""
    loading = Loading(folder, {name: str(each["file"]) for each in pickles for name in _names(each)}, namespace)
    return {name: loading.find(name) for each in pickles for name in _names(each)}


class Loading:
    """The variables of a folder of pickles, each loaded when it is asked for."""

    def __init__(self, folder: str, files: Mapping[str, str], namespace: dict[str, object]) -> None:
        self._folder, self._files, self._namespace = folder, files, namespace
        self._values: dict[str, object] = {}

    def find(self, name: str) -> object:
        """Return the value of a variable; raise `Unloadable` with the reason if it cannot be loaded."""
        if name not in self._values:
            if name not in self._files:
                raise Unloadable(f"{name} is missing")
            try:
                with open(os.path.join(self._folder, self._files[name]), "rb") as file:
                    self._values.update(_NamingUnpickler(file, self).load())
            except Unloadable:
                raise
            except ModuleNotFoundError as error:
                raise Unloadable(f"{name} needs the package {error.name}, which is not installed here") from error
            except Exception as error:  # unpickling runs code of any library, which may raise anything
                said = " ".join(str(error).split())[:500].rstrip(".")
                raise Unloadable(f"{name} raised {type(error).__name__}{': ' if said else ''}{said}") from error
            finally:
                # cloudpickle puts a dict there, and the notebook's code knows a module.
                self._namespace["__builtins__"] = builtins
        return self._values[name]

    def resolve(self, kind: object, name: str) -> object:
        """Return what stands in a pickle by its name: the namespace, or another variable."""
        if (kind, name) == NAMESPACE:
            return self._namespace
        return self.find(name)


class _NamingUnpickler(Unpickler):
    """An unpickler that finds other variables by their names."""

    def __init__(self, file: BinaryIO, loading: Loading) -> None:
        super().__init__(file)
        self._loading = loading

    def persistent_load(self, named: object) -> object:
        """Return the namespace or the variable with this name; raise `pickle.UnpicklingError` for anything else."""
        if not isinstance(named, tuple) or len(named) != 2:
            raise pickle.UnpicklingError("unknown name in a pickle")
        return self._loading.resolve(*named)


def _names(entry: Mapping[str, object]) -> Sequence[str]:
    names = entry["names"]
    assert isinstance(names, (list, tuple))
    return names


def _write_text(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)

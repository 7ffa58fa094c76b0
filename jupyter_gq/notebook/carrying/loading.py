"""The loading of pickled variables into a namespace: of the job's kernel, or of the process that checks them.

Rules
-----
- Same environment: only the minor version of Python that made a pickle loads it, with the packages of the versions
  that made it. Another version may crash in a later call.
- Live globals: functions of the notebook find their globals in the namespace of this kernel.
- Defined at once: each variable is in the namespace as soon as it is loaded, since the loading of later ones may call
  functions that use it.
"""

from __future__ import annotations

import builtins
import os
import pickle
import sys
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from ..unpickler import Unpickler  # noqa: TID252 - in a kernel this package has another name
from .packages import explain_difference
from .pickler import NAMESPACE


class Unloadable(RuntimeError):
    """Variables that cannot be loaded here; the text says why."""


def require_environment(python: str, packages: Mapping[str, str]) -> None:
    """Raise `Unloadable` if Python has another minor version here, or if one of these packages has another version."""
    here = "{}.{}".format(*sys.version_info)
    if python != here:
        raise Unloadable(f"they were made by Python {python}, and the job has Python {here}")
    if why := explain_difference(packages):
        raise Unloadable(why)


class Loading:
    """The variables of a folder of pickles, each loaded into the namespace when it is asked for."""

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
                    loaded = _NamingUnpickler(file, self).load()
                self._values.update(loaded)
                self._namespace.update(loaded)
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

    def define_again(self) -> None:
        """Define each loaded variable once more, as the very object that was loaded."""
        self._namespace.update(self._values)

    def load_again(self, names: Iterable[str]) -> None:
        """Load these variables anew, as one step: what they hold by name is not loaded anew unless it is named too.

        Raises `Unloadable` if one of them cannot be loaded.
        """
        names = list(names)
        for name in names:
            self._values.pop(name, None)
            self._namespace.pop(name, None)  # the old values are released before the new ones are made
        for name in names:
            self.find(name)

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

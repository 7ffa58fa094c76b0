"""Saving of the variables that a job returns, run by the runner inside the job's kernel after the last cell.

Rules
-----
1. Standard library and, if the kernel has it, cloudpickle; nothing of this package: the kernel may live in another
   environment, of another Python.
2. Each variable is one file. What cannot be saved has a reason, and does not keep the others from being saved.
3. The report is written anew after each variable, so that it is there for those before a crash of the kernel.
4. What the job could not share is refused, not guessed: an open file is refused even where cloudpickle would copy it.
5. No value ends the kernel: before Python 3.12, pickling uses the stack of C up to the limit of recursions, which the
   user's code may have raised far above what the stack holds.

See docs/decisions/0115-return-variables-one-by-one.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import BinaryIO

#: Longest reason and longest name of a type, in characters.
_LONGEST_REASON, _LONGEST_TYPE = 500, 200
#: Most recursions while values are pickled: a third of what a stack of 8 MiB holds.
_MOST_RECURSIONS = 10_000


class _TooManyBytes(Exception):
    """A value whose pickle is larger than the bytes that are left."""


class _OpenFile(Exception):
    """A value that holds an open file."""


def main(request: str) -> None:
    """Save the variables that a JSON request names from the user's namespace, and write the report.

    The request has `names`, `folder`, `report` (a path), `limit` (bytes of all values) and `cwd` (the folder whose
    modules are pickled by value).
    """
    import __main__

    given = json.loads(request)
    save_all(vars(__main__), given["names"], given["folder"], given["report"], given["limit"], given["cwd"])


def save_all(namespace: Mapping[str, object], names: list[str], folder: str, report: str, limit: int, cwd: str) -> None:
    """Save each named variable as a file in `folder`, at most `limit` bytes in all; write the report after each."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    make_pickler = choose_pickler(cwd)
    found: list[dict[str, object]] = []
    left = limit
    for number, name in enumerate(names):
        entry = save_one(namespace, name, os.path.join(folder, f"{number}.pickle"), left, make_pickler)
        size = entry["bytes"]
        left -= size if isinstance(size, int) else 0
        if entry["reason"] == "":
            entry["path"] = f"{os.path.basename(folder)}/{number}.pickle"
        found.append(entry)
        _write_report(report, {"python": "{}.{}".format(*sys.version_info), "variables": found})


def save_one(
    namespace: Mapping[str, object],
    name: str,
    path: str,
    limit: int,
    make_pickler: Callable[[CountedFile], pickle.Pickler],
) -> dict[str, object]:
    """Save one variable to the file `path`; return its entry of the report.

    The entry has `name`, `type`, `bytes` and `sha256`, the `number` of a number, and a `reason` if nothing was saved,
    which leaves no file.
    """
    entry: dict[str, object] = {"name": name, "type": "", "bytes": None, "sha256": "", "path": "", "reason": ""}
    entry["number"] = None
    if name not in namespace:
        entry["reason"] = "The cells have not defined this name."
        return entry
    value = namespace[name]
    entry["type"], entry["number"] = _name_type(value), find_number(value)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "wb") as file:
            counted = CountedFile(file, limit)
            with limited_recursions():
                make_pickler(counted).dump(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - pickling runs code of any library, which may raise anything
        entry["reason"] = _explain(error, limit)
        _remove(path)
    else:
        entry["bytes"], entry["sha256"] = counted.size, counted.hash.hexdigest()
    return entry


def find_number(value: object) -> float | int | str | None:
    """Return a number as JSON knows it, also that of a library such as a loss in PyTorch; None for others.

    A number that JSON does not know becomes the text "nan", "inf" or "-inf".
    """
    number = make_plain_number(value)
    if number is None or isinstance(number, bool):
        return None
    return number if math.isfinite(number) else str(number)


def make_plain_number(value: object) -> bool | float | int | None:
    """Return a bool or a number, also that of a library, as one of Python; None for others and for huge integers.

    JSON has no number for nan and the infinite ones, and loses digits of integers from 2**53.
    """
    if not isinstance(value, (bool, int, float)):
        item = getattr(value, "item", None)
        try:
            value = item() if callable(item) else None
        except Exception:  # noqa: BLE001 - arrays of libraries raise errors of all kinds if they hold several numbers
            return None
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, int) and abs(value) < 2**53 else None


@contextmanager
def limited_recursions() -> Iterator[None]:
    """Keep a value that is nested too deeply from ending the process within the block: it raises an error instead."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, _MOST_RECURSIONS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class CountedFile:
    """A file that hashes and counts what is written to it, and refuses more than `limit` bytes."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit = file, limit
        self.size = 0
        self.hash = hashlib.sha256()

    def write(self, content: bytes | bytearray | memoryview | pickle.PickleBuffer) -> int:
        """Write some bytes and return their number; raise `_TooManyBytes` above the limit."""
        view = memoryview(content).cast("B")
        self.size += view.nbytes
        if self.size > self._limit:
            raise _TooManyBytes
        self.hash.update(view)
        self._file.write(view)
        return view.nbytes


def choose_pickler(cwd: str) -> Callable[[CountedFile], pickle.Pickler]:
    """Return a class of picklers: cloudpickle's if the kernel has it, with modules below `cwd` pickled by value.

    Without cloudpickle, functions and classes that the cells define cannot be saved.
    """
    try:
        import cloudpickle
    except ImportError:
        return lambda file: pickle.Pickler(file, protocol=pickle.HIGHEST_PROTOCOL)
    for module in list(find_own_modules(cwd)):
        cloudpickle.register_pickle_by_value(module)

    class ValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
        """cloudpickle's pickler, which refuses open files instead of copying their content."""

        def reducer_override(self, value: object) -> object:
            if isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO)):
                raise _OpenFile
            return super().reducer_override(value)

    return ValuePickler


@contextmanager
def own_modules_by_value(cwd: str) -> Iterator[None]:
    """Let cloudpickle, if it is here, write the modules below a folder by value within the block."""
    try:
        import cloudpickle
    except ImportError:
        yield
        return
    known = set(cloudpickle.list_registry_pickle_by_value())
    modules = [module for module in find_own_modules(cwd) if module.__name__ not in known]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:  # the user's other pickles stay as they are
            cloudpickle.unregister_pickle_by_value(module)


def find_own_modules(cwd: str) -> Iterator[ModuleType]:
    """Yield the imported modules whose files lie below `cwd`, without those of an environment that lies there."""
    folder = os.path.realpath(cwd) + os.sep
    environments = [os.path.realpath(prefix) + os.sep for prefix in (sys.prefix, sys.base_prefix)]
    real: dict[str, str] = {}  # a kernel has thousands of modules in a few folders
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(module, ModuleType) or not isinstance(file, str):
            continue
        if name != module.__name__:  # another name of a module: pickles know it by its own
            continue
        path = _resolve(file, real)
        inside = path.startswith(folder) and os.sep + "site-packages" + os.sep not in path
        if inside and not any(path.startswith(each) for each in environments):
            yield module


def _resolve(file: str, real: dict[str, str]) -> str:
    """Return the path of a file without links; `real` has the paths of folders that were resolved before."""
    folder, name = os.path.split(file)
    if not folder or os.path.islink(file):
        return os.path.realpath(file)
    if folder not in real:
        real[folder] = os.path.realpath(folder)
    return os.path.join(real[folder], name)


def _name_type(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return _make_valid(f"{module}{kind.__qualname__}"[:_LONGEST_TYPE])


def is_too_deep(error: BaseException | None) -> bool:
    """Return whether an error, or the cause of it, is a recursion that went too deep; cloudpickle renames that."""
    return error is not None and (isinstance(error, RecursionError) or is_too_deep(error.__cause__))


def describe_error(error: BaseException) -> str:
    """Return what an error says on one line, without its full stop; the name of its type if it says nothing."""
    if is_too_deep(error):
        return "it is nested too deeply, or its own code calls itself without end"
    try:
        said = " ".join(str(error).split())[:_LONGEST_REASON].rstrip(".")
    except Exception:  # noqa: BLE001 - the method is the user's
        said = ""
    named = type(error).__name__
    if " " not in said:  # such as the key of a `KeyError`, or the code of a `SystemExit`
        said = f"{named}: {said}" if said else named
    return _make_valid(said)


def _make_valid(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair is written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _explain(error: BaseException, limit: int) -> str:
    """Return the reason in one sentence for a value that could not be saved; `limit` is the number of bytes left."""
    if isinstance(error, _TooManyBytes):
        return (
            f"The value has more than the {limit / 2**20:.1f} MiB that are left for the results of this job. Save it "
            "to a file, or return a part of it."
        )
    if isinstance(error, _OpenFile):
        return "It cannot be saved, because it holds an open file. Return what was read from the file."
    if isinstance(error, OSError):
        return f"It could not be written: {error.strerror or describe_error(error)}."
    return f"It cannot be pickled: {describe_error(error)}.{_hint()}"


def _hint() -> str:
    missing = "cloudpickle" not in sys.modules
    return " This kernel's environment lacks the package cloudpickle, which can save more." if missing else ""


def _write_report(path: str, report: Mapping[str, object]) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(temporary, path)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)

"""The references of modules in files, kept for the next plan as long as the files are unchanged."""

import os
import threading
from collections import OrderedDict

from jupyter_gq.lab.reading.parsing import compile_quietly, limit_depth
from jupyter_gq.lab.reading.work_limit import TooMuchWork

from .references import References, find_references

#: Largest source that is parsed, in bytes.
_LARGEST_SOURCE = 2 * 1024 * 1024
#: Most bytes of all sources whose references are kept.
_MOST_KEPT = 32 * 1024 * 1024
#: What tells two states of a file apart.
_State = tuple[int, int, int, int, int]


class ReadModules:
    """The modules that were read last, by their paths. Threads may share it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[_State, References | None]] = OrderedDict()
        self._size = 0
        #: Paths of the modules that threads read at this moment.
        self._under_way: set[str] = set()
        #: Held while what is kept or under way changes; notified when a module has been read.
        self._change = threading.Condition()

    def read(self, path: str, found: os.stat_result) -> References | None:
        """Return the references of the module at a path, whose state is `found`; None if it is no Python.

        While another thread reads the module, this one waits for it: two threads of Python are no faster than one, so
        a plan beside the reading ahead would take twice as long as alone, and might end early.
        """
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        with self._change:
            while path in self._under_way:
                self._change.wait()
            known = self._kept.get(path)
            if known is not None and known[0] == state:
                self._kept.move_to_end(path)
                return known[1]
            self._under_way.add(path)
        try:
            references = _read(path) if found.st_size <= _LARGEST_SOURCE else None
            self._keep(path, state, references)
        except OSError:  # which may pass, while the file stays as it is
            return None
        finally:
            with self._change:
                self._under_way.remove(path)
                self._change.notify_all()
        return references

    def _keep(self, path: str, state: _State, references: References | None) -> None:
        with self._change:
            self._forget(path)
            self._kept[path] = (state, references)
            self._size += state[-1]
            while self._size > _MOST_KEPT:
                self._forget(next(iter(self._kept)))

    def _forget(self, path: str) -> None:
        earlier = self._kept.pop(path, None)
        if earlier is not None:
            self._size -= earlier[0][-1]


def _read(path: str) -> References | None:
    """Return the references of the module at a path; None if it is no Python. Raises `OSError` if it cannot be read."""
    try:
        with open(path, "rb") as file:
            tree = compile_quietly(file.read(_LARGEST_SOURCE))
        try:
            return find_references(tree)
        except RecursionError:  # few of thousands are so deep, and to measure each takes as long
            return find_references(limit_depth(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError, TooMuchWork):
        return None

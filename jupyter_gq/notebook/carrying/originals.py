"""The variables that a job took along, as they were before replayed cells, and their return after these cells.

Rules
-----
- The same object: a variable that a replayed cell has assigned gets back the object that was loaded. So what the cell
  has made with that object, such as a trainer with its net, still holds it.
- As it was sent: a variable that a replayed cell has changed in place is loaded once more, and so is what holds it. A
  change is seen by the hash of the pickle. A value that cannot be pickled here counts as changed.

See docs/decisions/0182-restore-variables-after-replayed-cells.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..save_results import CountedFile, limited_recursions  # noqa: TID252 - in a kernel this package has another name
from .loading import Loading
from .pickler import Variables, pickle_together


@dataclass(frozen=True)
class _Print:
    """The fingerprint of the variables of one pickle."""

    hash: str
    #: Variables that they hold by name.
    needs: frozenset[str]


class Originals:
    """Loaded variables that can be restored after other code has run; `groups` has the names of each pickle."""

    def __init__(self, loading: Loading, groups: Sequence[tuple[str, ...]], namespace: Mapping[str, object]) -> None:
        self._loading, self._groups, self._namespace = loading, groups, namespace
        self._before = self._take_prints()

    def restore(self) -> None:
        """Give each variable the value that it had at first; raise `Unloadable` if one cannot be loaded once more."""
        self._loading.define_again()
        changed = self._list_changed()
        self._loading.load_again(name for names in self._groups if names in changed for name in names)

    def _list_changed(self) -> set[tuple[str, ...]]:
        """Return the groups whose values have changed, and those that hold one of these."""
        now = self._take_prints()
        changed = {names for names in self._groups if now[names] is None or now[names] != self._before[names]}
        size = -1
        while size != len(changed):
            size = len(changed)
            gone = {name for names in changed for name in names}
            changed |= {names for names, each in now.items() if each is not None and each.needs & gone}
        return changed

    def _take_prints(self) -> dict[tuple[str, ...], _Print | None]:
        variables = Variables(self._namespace)
        for names in self._groups:
            for name in names:
                variables.add(name)
        with limited_recursions():
            # Data before their classes, since the first pickle of an instance adds `__slotnames__` to its class.
            return {names: _take_print(names, variables) for names in reversed(self._groups)}


def _take_print(names: tuple[str, ...], variables: Variables) -> _Print | None:
    """Return the fingerprint of these variables; None if they cannot be pickled."""
    with open(os.devnull, "wb") as nowhere:
        counted = CountedFile(nowhere, sys.maxsize)
        try:
            noticed = pickle_together(names, counted, variables)
        except (Exception, SystemExit):  # noqa: BLE001 - pickling runs code of any library, which may raise anything
            return None
    return _Print(hash=counted.hash.hexdigest(), needs=frozenset(noticed.needs))

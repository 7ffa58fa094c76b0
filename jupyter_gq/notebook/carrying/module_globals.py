"""The modules of one pickle: each is one module where it is loaded, with the globals of all its functions.

cloudpickle alone writes a module and the functions of this module apart: each gets globals of its own, so a counter of
the module would be two counters. Standard library only.

See docs/decisions/0210-carry-a-module-as-one.md.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Collection, Mapping
from types import ModuleType

#: Globals that functions of a module may need before anything of the module is loaded, such as for relative imports.
_OUTLINE = ("__name__", "__package__", "__path__", "__file__")


class ModuleOutline:
    """A module without its content, made by the pickle in which it stands."""

    __slots__ = ("_globals",)

    def __init__(self, module_globals: Mapping[str, object]) -> None:
        self._globals = module_globals

    def __reduce__(self) -> tuple[object, ...]:
        outline = {name: self._globals[name] for name in _OUTLINE if name in self._globals}
        return ModuleType, (str(outline.get("__name__", "")),), outline


class ModuleGlobals:
    """The stand-in for the dict of globals of a module, or of a module's outline, in a pickle."""

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType | ModuleOutline) -> None:
        self._module = module

    def __reduce__(self) -> tuple[object, ...]:
        return vars, (self._module,)


class ModulesInPickle:
    """The modules whose content stands in one pickle; `by_value` has the names that cloudpickle writes by value."""

    def __init__(self, by_value: Collection[str]) -> None:
        self._by_value = by_value
        self._outlines: dict[int, ModuleOutline] = {}

    def name_globals(self, module_globals: dict[str, object]) -> ModuleGlobals:
        """Return what is pickled in place of `module_globals`: the name of a module, or an outline to be filled."""
        module = self.find_imported(module_globals)
        return ModuleGlobals(module or self._find_outline(module_globals))

    def reduce(self, module: ModuleType) -> tuple[object, ...] | None:
        """Return the reduce value (function, arguments, state) by which pickle rebuilds a module with its content.

        None if the job imports the module by its name.
        """
        content = vars(module)
        if self._is_imported(module.__name__):
            return None
        state = {name: value for name, value in content.items() if name != "__builtins__"}
        return operator.getitem, ((self._find_outline(content),), 0), state

    def find_imported(self, module_globals: dict[str, object]) -> ModuleType | None:
        """Return the module with these globals if the job imports it by its name."""
        name = module_globals.get("__name__")
        if not isinstance(name, str) or not self._is_imported(name):
            return None
        module = sys.modules[name]
        return module if vars(module) is module_globals else None

    def _find_outline(self, module_globals: dict[str, object]) -> ModuleOutline:
        return self._outlines.setdefault(id(module_globals), ModuleOutline(module_globals))

    def _is_imported(self, name: str) -> bool:
        parts = name.split(".")
        parents = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return isinstance(sys.modules.get(name), ModuleType) and not any(each in self._by_value for each in parents)

"""A call of a function of this folder in any Python process: a kernel, or one that checks pickles.

The environment of that process may lack this package, or have another version. So the package is imported by its path,
under a name of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

#: Name under which the folder `notebook` is imported; `kernel_startup.py` uses the same one.
ALIAS = "jupyter_gq_kernel"


def call(module: str, request: str) -> None:
    """Call the function `main` of a module of this folder with a text."""
    here = os.path.dirname(os.path.abspath(__file__))
    if ALIAS not in sys.modules:
        _import_package(ALIAS, os.path.dirname(here))
    importlib.import_module(f"{ALIAS}.carrying.{module}").main(request)


def _import_package(name: str, folder: str) -> None:
    """Import the package in `folder` under this name."""
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)

"""The exception classes of the package: one root, one fault each, and names that mean one class."""

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator

import jupyter_gq
from jupyter_gq.controller.settings.reading import Abandoned
from jupyter_gq.devices.nvml_library import NvmlError
from jupyter_gq.domain.errors import (
    AdminError,
    DefectError,
    HttpRefusal,
    JupyterGQError,
    MachineError,
    UserError,
)
from jupyter_gq.notebook.carrying.loading import Unloadable
from jupyter_gq.notebook.carrying.pickler import OpenFile, SharedVariable
from jupyter_gq.notebook.carrying.save import TooManyBytes
from jupyter_gq.notebook.handle import JobFailed
from jupyter_gq.notebook.results import ResultError
from jupyter_gq.notebook.server import JobError
from jupyter_gq.notebook.share_wait import GPUWaitTimeout
from jupyter_gq.runner.pod.sigterm import StoppedBeforeStart
from jupyter_gq.service_waits import Ended

FAULTS = (UserError, AdminError, MachineError, DefectError, HttpRefusal)
#: No errors of ours: three signals to end, two of which no `except Exception` may catch, the type of a class of
#: `pynvml`, and the errors in the kernels of users, whose Python may be too old for our other modules.
IN_KERNELS = {ResultError, JobError, JobFailed, GPUWaitTimeout, OpenFile, SharedVariable, TooManyBytes, Unloadable}
OTHERS = {Abandoned, Ended, StoppedBeforeStart, NvmlError, *IN_KERNELS}


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(jupyter_gq.__path__, "jupyter_gq."):
        if ".migrations" in module.name or module.name.endswith(("__main__", "kernel_startup")):
            continue  # these run when they are imported
        for found in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(found) and found.__module__ == module.name:
                yield found


def _errors() -> list[type[BaseException]]:
    raised = [each for each in _classes() if issubclass(each, BaseException) and not each.__name__.startswith("_")]
    return [each for each in raised if each not in OTHERS]


def test_every_error_has_the_one_root_and_says_whose_fault_it_is():
    wrong = {
        each.__qualname__: [fault.__name__ for fault in FAULTS if issubclass(each, fault)]
        for each in _errors()
        if each is not JupyterGQError and sum(issubclass(each, fault) for fault in FAULTS) != 1
    }
    assert wrong == {}


def test_a_name_means_one_error():
    assert [name for name, count in Counter(each.__name__ for each in _errors()).items() if count > 1] == []


def test_refused_state_and_refusal_name_one_class_each_at_most():
    names = Counter(each.__name__ for each in _classes())
    assert {name: names[name] for name in ("Refused", "Refusal", "State")} == {"Refused": 1, "Refusal": 0, "State": 1}

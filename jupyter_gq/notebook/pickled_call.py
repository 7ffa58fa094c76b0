"""A call of a function, pickled for a job: made and checked in the user's kernel, run in the kernel of the job.

Rules
-----
1. cloudpickle takes functions and classes of cells by value, and modules of the user's folder too: the job may start
   when those files have changed.
2. Arguments are pickled together, since they may share objects. If that fails, each is tried alone to name the culprit.
3. Before anything is sent, the call is loaded in a new process of this Python, in this folder and without GPUs.
4. A pickle is loaded only by the minor version of Python that made it: another one may crash.

See docs/decisions/0127-let-kernels-send-jobs-through-the-socket.md.
"""

from __future__ import annotations

import base64
import inspect
import io
import linecache
import math
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from .cached_functions import reduce_cached
from .save_results import describe_error, is_too_deep, limited_recursions, make_plain_number, own_modules_by_value
from .server import JobError
from .unpickler import Unpickler

if TYPE_CHECKING:
    from types import ModuleType

    Function = Callable[..., object]

#: Largest call in bytes, as it is sent.
MAX_CALL = 8 * 2**20
#: Seconds that loading may take in the new process.
CHECK_TIMEOUT = 120.0
#: Media type of the value that a call returned, if it is a number, a text or a dict of them.
VALUE_MIME = "application/vnd.jupyter-gq.value+json"
#: The numbers that JSON does not know, as text.
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})
#: Longest text and most entries of a value that is shown.
_LONGEST_TEXT, _MOST_ENTRIES, _LONGEST_REPR = 500, 100, 2000
#: Loads a call in a process whose environment may lack this package: `jupyter_gq` is found by its path alone.
_CHECK = """
import importlib.util, sys
package = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    "jupyter_gq", package + "/__init__.py", submodule_search_locations=[package]
)
sys.modules["jupyter_gq"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["jupyter_gq"])
from jupyter_gq.notebook.pickled_call import load_call
load_call(sys.argv[2], sys.stdin.read())
"""


def this_python() -> str:
    """Return the minor version of this Python, such as "3.12"."""
    return "{}.{}".format(*sys.version_info)


def describe_call(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return a call as a line of text, such as "train(0.1, epochs=3)"; long arguments are shortened."""
    shown = [_shorten(value) for value in args] + [f"{name}={_shorten(value)}" for name, value in kwargs.items()]
    return f"{name_function(function)}({', '.join(shown)})"


def name_function(function: Function) -> str:
    """Return the name of a function, or that of its class for other objects that can be called."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def check_arguments(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise `TypeError` if the function cannot be called with these arguments, as far as its signature tells."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # functions in C may have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name_function(function)}{signature} cannot be called like this: {error}.") from None


def pickle_call(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return the call as text; raise `JobError` with the reason if it cannot be pickled or is too large."""
    sources = _collect_sources(function)
    content = _dump((function, tuple(args), dict(kwargs), sources))
    if isinstance(content, Exception):
        raise JobError(_explain(content, function, args, kwargs))
    text = base64.b64encode(zlib.compress(content, 1)).decode()
    if len(text) > MAX_CALL:
        raise JobError(
            f"The call takes {len(text) / 2**20:.1f} MiB, and at most {MAX_CALL / 2**20:.0f} MiB can go along. Write "
            "large arguments to a file, and pass its path to the function."
        )
    return text


def check_call(text: str) -> None:
    """Load a call in a new process of this Python, in the present folder; raise `JobError` with its error if it fails.

    The process sees no GPU, so that it takes no memory of the share.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(  # noqa: S603 - this Python, and our own code
            [sys.executable, "-c", _CHECK, package, this_python()],
            input=text,
            capture_output=True,
            text=True,
            timeout=CHECK_TIMEOUT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JobError(
            f"The function could not be loaded in a new process within {CHECK_TIMEOUT:.0f} s. If its imports take that "
            "long, send it with check=False."
        ) from None
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        said = lines[-1].strip() if lines else f"exit status {done.returncode}"
        raise JobError(
            f"A job could not load the function, so it was not sent. In a new process it fails with: {said.rstrip('.')}"
            f".{_hint_at_module(said)}"
        )


def load_call(python: str, text: str) -> Callable[[], object]:
    """Return the call in a text as a function without arguments; raise `JobError` for another version of Python.

    The returned function runs the call, shows the value, and returns it.
    """
    if python != this_python():
        raise JobError(
            f"The function was pickled by Python {python}, and this job has Python {this_python()}. Send it from a "
            "kernel with the same version, or with software that has it."
        )
    function, args, kwargs, sources = Unpickler(io.BytesIO(zlib.decompress(base64.b64decode(text)))).load()
    for file, lines in sources.items():
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
        if isinstance(function, FunctionType):
            function.__code__ = _name_file(function.__code__, file)

    def call() -> object:
        value = function(*args, **kwargs)
        show_value(value)
        return value

    return call


def show_value(value: object) -> None:
    """Show a value as the output of the cell, with its numbers for programs; None is not shown."""
    if value is None:
        return
    from IPython.display import display

    with limited_recursions():
        data: dict[str, object] = {"text/plain": _shorten(value, _LONGEST_REPR)}
        simple = simplify(value)
    if simple is not None:
        data[VALUE_MIME] = {"value": simple}
    display(data, raw=True)  # type: ignore[no-untyped-call]


def simplify(value: object) -> object:
    """Return a number or a text as JSON knows it, or a flat dict of them; None for all other values.

    Numbers of libraries, such as a loss in PyTorch, become plain ones. What is not finite becomes text, which
    `restore_numbers` reads.
    """
    if isinstance(value, Mapping):
        entries = list(value.items())[:_MOST_ENTRIES]
        return {_make_valid(_text_of(name)[:_LONGEST_TEXT]): _simplify_one(each) for name, each in entries}
    return _simplify_one(value)


def restore_numbers(simple: object) -> object:
    """Return what `simplify` has returned, with the numbers that JSON does not know: nan and the infinite ones."""
    if isinstance(simple, Mapping):
        return {name: restore_numbers(each) for name, each in simple.items()}
    return float(simple) if isinstance(simple, str) and simple in _NOT_FINITE else simple


def _simplify_one(value: object) -> object:
    if isinstance(value, str):
        return _make_valid(value[:_LONGEST_TEXT])
    number = make_plain_number(value)
    return str(number) if number is not None and not math.isfinite(number) else number


def _dump(value: object) -> bytes | Exception:
    """Return the pickle of a value, with the modules of this folder by value; the error if it cannot be pickled."""
    cloudpickle = _import_cloudpickle()
    file = io.BytesIO()
    try:
        with own_modules_by_value(os.getcwd()), limited_recursions():
            _make_pickler(cloudpickle, file).dump(value)
    except Exception as error:  # noqa: BLE001 - pickling runs code of any library, which may raise anything
        return error
    return file.getvalue()


def _make_pickler(cloudpickle: ModuleType, file: io.BytesIO) -> pickle.Pickler:
    """Return cloudpickle's pickler, which also pickles functions of the notebook that have a cache."""

    class CallPickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, value: object) -> object:
            return reduce_cached(value) or super().reducer_override(value)

    pickler: pickle.Pickler = CallPickler(file)
    return pickler


def _import_cloudpickle() -> ModuleType:
    try:
        import cloudpickle
    except ImportError:
        raise JobError(
            "Functions are sent with the package cloudpickle, which this kernel's environment lacks. Install it with "
            "%pip install cloudpickle, or send the cell itself with %%train."
        ) from None
    module: ModuleType = cloudpickle
    return module


def _explain(error: Exception, function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """Return a sentence that names the part of the call which cannot be pickled, and the reason."""
    named = {f"argument {number}": value for number, value in enumerate(args, 1)}
    named.update({f"the argument {name}": value for name, value in kwargs.items()})
    for name, value in named.items():
        alone = _dump(value)
        if isinstance(alone, Exception):
            return (
                f"The {type(value).__name__} that is {name} cannot be pickled: {_one_line(alone)}. Make it inside of "
                "the function, or pass what it is made from."
            )
    remedy = "It uses a variable of the notebook that cannot be sent; make that variable inside of the function."
    if is_too_deep(error):
        remedy = "Define it, and what it uses, with fewer functions or containers inside of each other."
    return f"The function {name_function(function)} cannot be pickled: {_one_line(error)}. {remedy}"


def _one_line(error: Exception) -> str:
    return describe_error(error)[:_LONGEST_TEXT]


def _hint_at_module(said: str) -> str:
    if "ModuleNotFoundError" not in said:
        return ""
    return (
        " Modules of this folder go along; others must be installed in the environment of the kernel, and not only be "
        "on sys.path."
    )


def _collect_sources(function: Function) -> dict[str, list[str]]:
    """Return the lines of the cell that defines a function by file name, so that its tracebacks show them."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    if not isinstance(file, str) or os.path.exists(file):
        return {}
    lines = linecache.getlines(file)
    return {file: lines} if lines else {}


def _name_file(code: CodeType, file: str) -> CodeType:
    """Return code, and the code of functions in it, with the name of its file, which newer cloudpickles leave out."""
    constants = (_name_file(each, file) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=file, co_consts=tuple(constants))


def _shorten(value: object, length: int = 60) -> str:
    """Return the repr of a value on one line and at most `length` characters; its type if it has no repr."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the method is the user's
        text = f"<{type(value).__name__}>"
    if length <= 60:
        text = " ".join(text.split())
    return _make_valid(text if len(text) <= length else text[: length - 1] + "…")


def _text_of(name: object) -> str:
    """Return the text of a key; that of its type if it has none."""
    try:
        return str(name)
    except Exception:  # noqa: BLE001 - the method is the user's
        return type(name).__name__


def _make_valid(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair, as in a strange file name, is written out."""
    return text.encode("utf-8", "backslashreplace").decode()

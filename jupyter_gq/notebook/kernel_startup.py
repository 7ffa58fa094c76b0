"""A script that runs in place of `python -m ipykernel_launcher`: it prepares the kernel for its share, then runs that.

The memory caps of the share are applied, and cells wait while the share is lent (`waiting_kernel.py`).

Rules
-----
1. Standard library only, and nothing of this package: the kernel may live in another environment, of another
   Python.
2. Nothing of the user's is shadowed: no name in the user's namespace, no sitecustomize, PYTHONPATH, IPython setting.
   One IPython extension is added (`magics.py`), for `%gq_load`.
3. A framework that the user does not import costs nothing; one whose cap cannot be set says so and goes on.
4. Without a fraction in the environment (CPU only, a whole device) nothing is capped.
5. A kernel that cannot wait, or whose command names its own class, starts as it is: the Jupyter server's watch then
   calls a lent share back.

| Framework | Cap |
|---|---|
| PyTorch >= 2.10 | key `per_process_memory_fraction` of PYTORCH_ALLOC_CONF, merged with the user's value |
| PyTorch < 2.10 | after its import, lazily, so that no CUDA context is made: it would reject that key |
| TensorFlow | after its import, a logical device with a memory limit on each GPU |
| JAX | XLA_CLIENT_MEM_FRACTION, or its older name before jaxlib 0.4.33; a smaller value of the user's wins |
| CuPy | CUPY_GPU_MEMORY_LIMIT, in per cent or bytes; a smaller value of the user's wins |
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import ModuleType

FRACTION = "JUPYTER_GQ_MEMORY_FRACTION"
#: Socket of the Jupyter server that starts this kernel (see `server_socket.py`); kernels of jobs have none.
SOCKET = "JUPYTER_GQ_SOCKET"
#: Name under which the files beside this one are imported. The environment of the kernel may have a `jupyter_gq` of
#: another version, so that name is not used.
ALIAS = "jupyter_gq_kernel"
KERNEL_CLASS = "--IPKernelApp.kernel_class="
BYTES = "GQ_GPU_MEMORY_BYTES"
CUPY_LIMIT = "CUPY_GPU_MEMORY_LIMIT"
#: The variables with the fraction of JAX, the present one first. Later versions refuse both together.
JAX_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
#: First version of jaxlib that knows the present variable; others know the older one only.
FIRST_JAX_WITH_FRACTION = (0, 4, 33)
#: Bytes of a CUDA context, which allocators do not count; the same as in `devices/limits.py`.
CONTEXT_BYTES = 600 * 2**20
TORCH_KEY = "per_process_memory_fraction"
FIRST_TORCH_WITH_KEY = (2, 10)


def apply_caps(environ: MutableMapping[str, str]) -> None:
    """Set the memory caps of PyTorch from 2.10 now, and let imports of other frameworks set theirs afterwards.

    Does nothing without a fraction in the environment.
    """
    if not _share_fraction(environ):
        return
    cap_jax(environ)
    cap_cupy(environ)
    if (read_version(_spec_of("torch")) or (0,)) >= FIRST_TORCH_WITH_KEY:
        cap_torch_by_key(environ)
    sys.meta_path.insert(0, CapsFinder(environ))


def cap_torch_by_key(environ: MutableMapping[str, str]) -> None:
    """Add the memory cap to PyTorch's allocator settings in `environ`, so that child processes have it too.

    A smaller cap of the user's wins; the user's other settings stay. If the user has set both variables with such
    settings, each gets those of both, since the version of PyTorch decides which one is read.
    """
    names = [name for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF") if environ.get(name)]
    found: dict[str, str] = {}
    caps = [_share_fraction(environ)]
    for entry in (entry for name in names for entry in re.split(r",(?![^\[]*\])", environ[name])):
        key, _, value = (part.strip() for part in entry.partition(":"))
        if key == TORCH_KEY:
            caps.append(_number(value))
        elif key:
            found.setdefault(key, entry)
    merged = ",".join([*found.values(), f"{TORCH_KEY}:{min(cap for cap in caps if cap > 0):g}"])
    for name in names or ["PYTORCH_ALLOC_CONF"]:
        environ[name] = merged


def cap_jax(environ: MutableMapping[str, str]) -> None:
    """Leave only the variable of `JAX_FRACTIONS` that the installed jaxlib knows in `environ`.

    The value is the fraction of the share, or a smaller one that the user has set under either name.
    """
    version = read_version(_spec_of("jaxlib"))
    is_older = version is not None and version < FIRST_JAX_WITH_FRACTION
    named = [value for name in JAX_FRACTIONS if _read_limit(name, value := environ.pop(name, "")) > 0]
    environ[JAX_FRACTIONS[is_older]] = min([f"{_share_fraction(environ):g}", *named], key=_number)


def cap_cupy(environ: MutableMapping[str, str]) -> None:
    """Lower the limit of CuPy in `environ` to the cap of the share; a smaller one of the user's stays."""
    theirs, fraction = environ.get(CUPY_LIMIT, "").strip(), _share_fraction(environ)
    if theirs.endswith("%"):
        is_smaller = 0 < _read_limit(CUPY_LIMIT, theirs, "%") / 100 <= fraction
    else:
        is_smaller = 0 < _read_limit(CUPY_LIMIT, theirs) <= usable_bytes(environ)
    if not is_smaller:
        environ[CUPY_LIMIT] = f"{100 * fraction:g}%"


def usable_bytes(environ: Mapping[str, str]) -> int:
    """Return the bytes that frameworks may allocate: the share without a CUDA context, at least half; 0 if unknown."""
    share = int(_number(environ.get(BYTES, "")))
    return max(share - CONTEXT_BYTES, share // 2)


def read_version(spec: importlib.machinery.ModuleSpec | None) -> tuple[int, ...] | None:
    """Return the version of the package that `spec` locates, without importing it; None if unknown."""
    if spec is None or not spec.origin:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8", errors="replace") as file:
            found = re.search(r"^(?:__)?_?version(?:__)?[^=\n]*=\s*['\"](\d+(?:\.\d+)*)", file.read(), re.MULTILINE)
        return tuple(map(int, found[1].split("."))) if found else None
    except (OSError, ValueError):  # a path with a null byte, or a number with more digits than Python converts
        return None


def cap_imported_torch(torch: ModuleType, environ: MutableMapping[str, str]) -> None:
    """Cap an imported PyTorch before 2.10; do nothing for later versions, which are capped by the environment.

    The cap takes effect when CUDA is first used, so that no CUDA context is made here.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version >= FIRST_TORCH_WITH_KEY:
        return
    fraction = _share_fraction(environ)
    torch.cuda._lazy_call(lambda: torch.cuda.set_per_process_memory_fraction(fraction))


def cap_imported_tensorflow(tensorflow: ModuleType, environ: MutableMapping[str, str]) -> None:
    """Give each GPU one logical device with the share's memory limit; do nothing without a limit.

    The user may configure other logical devices before TensorFlow uses a GPU.
    """
    limit = usable_bytes(environ) // 2**20
    if limit <= 0:
        return
    config = tensorflow.config
    for gpu in config.list_physical_devices("GPU"):
        config.set_logical_device_configuration(gpu, [config.LogicalDeviceConfiguration(memory_limit=limit)])


def cap_imported_jax(xla_client: ModuleType, environ: MutableMapping[str, str]) -> None:
    """Make jaxlib call `cap_jax` each time before it reads the options of GPUs.

    A cell may have set a variable since the kernel started.
    Does nothing for a version without the function that reads it, such as 0.4.13: the environment caps it.
    """
    read = getattr(xla_client, "generate_pjrt_gpu_plugin_options", None)
    if read is None:
        return

    def read_after_cap(*args: object, **keywords: object) -> object:  # some versions are given the visible devices
        if _share_fraction(environ):
            cap_jax(environ)
        return read(*args, **keywords)

    xla_client.generate_pjrt_gpu_plugin_options = read_after_cap  # type: ignore[attr-defined]


_AFTER_IMPORT: dict[str, Callable[[ModuleType, MutableMapping[str, str]], None]] = {
    "jax": lambda _, environ: cap_jax(environ),  # a cell may have set a variable, which child processes get
    "jaxlib.xla_client": cap_imported_jax,
    "torch": cap_imported_torch,
    "tensorflow": cap_imported_tensorflow,
}


class CapsFinder(importlib.abc.MetaPathFinder):
    """A finder that leaves frameworks to the other finders, and applies the cap of one once it is imported."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the other finders find for a framework, with a loader that caps it after its import.

        Returns None for all other modules, and for a framework that is not installed.
        """
        if fullname not in _AFTER_IMPORT or self._searching or not _share_fraction(self._environ):
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return None
        if fullname == "torch" and (read_version(spec) or (0,)) >= FIRST_TORCH_WITH_KEY:
            cap_torch_by_key(self._environ)  # PyTorch may have been installed since the kernel started
        spec.loader = CapsLoader(spec.loader, _AFTER_IMPORT[fullname], self._environ)
        return spec


class CapsLoader(importlib.abc.Loader):
    """A loader that puts the framework's own loader back into the module, runs it, and then sets the memory cap."""

    def __init__(
        self,
        loader: importlib.abc.Loader,
        cap: Callable[[ModuleType, MutableMapping[str, str]], None],
        environ: MutableMapping[str, str],
    ) -> None:
        self._loader, self._cap, self._environ = loader, cap, environ

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the framework's own loader, then cap the module; print an error of the cap and do not raise it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._cap(module, self._environ)
        except Exception as error:  # noqa: BLE001 - whatever a framework's version does, the user's import must succeed
            sys.stderr.write(f"jupyter-gq: the memory cap of {module.__name__} could not be set: {error}\n")


class ApiFinder(importlib.abc.MetaPathFinder):
    """A finder of `jupyter_gq` beside this file, for kernels whose environment lacks it; asked after all others."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of `jupyter_gq` beside this file; None for every other module."""
        if fullname != os.path.basename(self._package):
            return None
        return importlib.util.spec_from_file_location(
            fullname, os.path.join(self._package, "__init__.py"), submodule_search_locations=[self._package]
        )


def _spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _share_fraction(environ: MutableMapping[str, str]) -> float:
    """Return the part of the device's memory that this process may use; 0 if there is no cap."""
    fraction = _number(environ.get(FRACTION, ""))
    return fraction if 0 < fraction < 1 else 0


def _read_limit(name: str, text: str, unit: str = "") -> float:
    """Return the limit that a variable of the user holds; 0 if it holds none, which is told if it is no number."""
    try:
        return float(text.strip().removesuffix(unit) or 0)
    except ValueError:
        sys.stderr.write(f"jupyter-gq: {name}={text[:60]!r} is no number, so the limit of the share is used.\n")
        return 0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0


def choose_kernel_class(here: str, argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the option for the kernel class whose cells wait while the share is lent; [] if it cannot be used.

    `here` is the folder of this file. The class is not used without a Jupyter server of ours, for a command that names
    a class itself, and for an ipykernel that does not offer what the class needs.
    """
    if not environ.get(SOCKET) or any(argument.startswith(KERNEL_CLASS) for argument in argv):
        return []
    try:
        from ipykernel.ipkernel import IPythonKernel

        if not hasattr(IPythonKernel, "_cancel_on_sigint"):
            return []
        _import_package(ALIAS, here)
        importlib.import_module(f"{ALIAS}.waiting_kernel")
    except Exception as error:  # noqa: BLE001 - the kernel must start, whatever this environment is like
        sys.stderr.write(f"jupyter-gq: cells of this kernel do not wait for a lent GPU: {error}\n")
        return []
    return [f"{KERNEL_CLASS}{ALIAS}.waiting_kernel.WaitingKernel"]


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


def main() -> None:
    """Apply the memory caps, let cells wait for the share, make `jupyter_gq` importable, and run `ipykernel_launcher`.

    The kernel runs in this process, which ends with status 1 if the kernel cannot begin.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]  # put there because this is a script; the user's modules must not be found beside it
    apply_caps(os.environ)
    sys.meta_path.append(ApiFinder(os.path.dirname(here)))
    sys.argv += choose_kernel_class(here, sys.argv, os.environ)
    sys.argv.append("--IPKernelApp.extra_extensions=jupyter_gq")  # for %gq_load; the user's own list is another trait
    try:
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
    except Exception:  # noqa: BLE001 - told below, whatever it is
        # A kernel that could not bind one of its ports leaves open sockets, for which Python would wait for ever at its
        # end; and Jupyter starts another kernel, on other ports, only when this process has ended.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()

"""The page on the Python API for notebooks, made from the signatures and docstrings of `jupyter_gq`."""

import inspect
from collections.abc import Callable, Iterator

import jupyter_gq

#: Names of the package that users do not call.
_NOT_CALLED = {"__version__", "load_ipython_extension"}
#: Headings, and the names below each, in the order of the page.
SECTIONS = {
    "Send jobs and follow them": ("submit", "job", "Job", "JobError", "JobFailed"),
    "Many jobs of one function": ("sweep", "find_sweep", "Sweep"),
    "Load results": ("result",),
    "In the code of a job": ("in_job", "should_stop", "checkpoint_dir", "results_dir", "progress", "tasks", "Tasks"),
    "Try without a GPU": ("simulate_memory",),
}
#: Magics of IPython, and what they do.
MAGICS = {
    "%%train": "sends its cell to a training queue; `%train --help` lists the options",
    "%gq_jobs": "lists your jobs that have not ended, first those that run; `--all` lists the newest of all, "
    "`--group` those of a sweep",
    "%gq_load JOB [NAME ...]": "assigns variables that a job brought back; without names, all of them; "
    "`last` is the job that you sent last",
}


def python_api() -> str:
    """Return the page: each function with its signature and its docstring, each class with its public members."""
    parts = [
        "# Python API\n\nFor code in notebooks and in jobs. `import jupyter_gq` is cheap and needs nothing but the "
        "standard\nlibrary; kernels that a notebook server with jupyter-gq starts have it in every environment. "
        "Sending functions\nneeds the package cloudpickle in the environment of the kernel.\n"
    ]
    listed = {name for names in SECTIONS.values() for name in names} | _NOT_CALLED
    missing = set(jupyter_gq.__all__) ^ listed
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))}: not both in jupyter_gq.__all__ and in SECTIONS")
    for heading, names in SECTIONS.items():
        parts.append(f"\n## {heading}\n")
        for name in names:
            parts += _describe(name, getattr(jupyter_gq, name))
    parts += ["\n## Magics\n\n", *(f"* `{name}`: {use}\n" for name, use in MAGICS.items())]
    return "".join(parts)


def _describe(name: str, found: Callable[..., object]) -> Iterator[str]:
    """Yield the text on a function, or on a class and its public members."""
    if not inspect.isclass(found):
        yield f"\n### `jupyter_gq.{name}`\n\n`{name}{_signature(found)}`\n\n{_text(found)}\n"
        return
    yield f"\n### `jupyter_gq.{name}`\n\n{_text(found)}\n"
    for member, value in vars(found).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            shown = member if isinstance(value, property) else f"{member}{_signature(value)}"
            yield f"\n#### `{name}.{shown}`\n\n{_text(value)}\n"


def _signature(found: Callable[..., object]) -> str:
    """Return the signature without `self` and without types, which the docstring explains."""
    signature = inspect.signature(found)
    empty = inspect.Parameter.empty
    shown = [each.replace(annotation=empty) for each in signature.parameters.values() if each.name != "self"]
    return str(signature.replace(parameters=shown, return_annotation=empty))


def _text(found: object) -> str:
    return inspect.getdoc(found) or ""

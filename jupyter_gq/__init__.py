"""GPU quotas for notebooks and a training queue for cells, on JupyterHub.

In a notebook: `jupyter_gq.should_stop()`, `checkpoint_dir()`, `progress()`, `in_job()`, `results_dir()`,
`result(job)`, `submit(function, ...)`, `sweep(function, grid)`, `job(id)`, `find_sweep(id)`, `tasks()`,
`simulate_memory()`;
`%load_ext jupyter_gq` adds the magics `%%train`, `%gq_jobs` and `%gq_load`.
Importing this package is cheap and needs the standard library only: it is imported in the user's kernel,
which may belong to another environment than ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gq.notebook.handle import Job, JobFailed, job
    from jupyter_gq.notebook.jobs import checkpoint_dir, in_job, progress, results_dir, should_stop
    from jupyter_gq.notebook.magics import load_ipython_extension
    from jupyter_gq.notebook.results import result
    from jupyter_gq.notebook.server import JobError
    from jupyter_gq.notebook.simulation import simulate_memory
    from jupyter_gq.notebook.submit import submit
    from jupyter_gq.notebook.sweep import Sweep, find_sweep, sweep
    from jupyter_gq.notebook.tasks import Tasks, tasks

    __version__: str

__all__ = [
    "Job",
    "JobError",
    "JobFailed",
    "Sweep",
    "Tasks",
    "__version__",
    "checkpoint_dir",
    "find_sweep",
    "in_job",
    "job",
    "load_ipython_extension",
    "progress",
    "result",
    "results_dir",
    "should_stop",
    "simulate_memory",
    "submit",
    "sweep",
    "tasks",
]

_HOME_OF = {
    "Job": "jupyter_gq.notebook.handle",
    "JobError": "jupyter_gq.notebook.server",
    "JobFailed": "jupyter_gq.notebook.handle",
    "Sweep": "jupyter_gq.notebook.sweep",
    "Tasks": "jupyter_gq.notebook.tasks",
    "checkpoint_dir": "jupyter_gq.notebook.jobs",
    "find_sweep": "jupyter_gq.notebook.sweep",
    "in_job": "jupyter_gq.notebook.jobs",
    "job": "jupyter_gq.notebook.handle",
    "load_ipython_extension": "jupyter_gq.notebook.magics",
    "progress": "jupyter_gq.notebook.jobs",
    "result": "jupyter_gq.notebook.results",
    "results_dir": "jupyter_gq.notebook.jobs",
    "should_stop": "jupyter_gq.notebook.jobs",
    "simulate_memory": "jupyter_gq.notebook.simulation",
    "submit": "jupyter_gq.notebook.submit",
    "sweep": "jupyter_gq.notebook.sweep",
    "tasks": "jupyter_gq.notebook.tasks",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _read_version()
    elif name in _HOME_OF:
        import importlib

        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _read_version() -> str:
    """Return the version written at build; without it that of the installed distribution, else "0+unknown"."""
    try:
        from jupyter_gq._version import __version__ as built
    except ImportError:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("jupyter-gq")
        except PackageNotFoundError:
            return "0+unknown"
    return str(built)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-gq"}]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    import importlib

    extension = importlib.import_module("jupyter_gq.lab.extension")  # asked for by a Jupyter server only
    return [{"module": "jupyter_gq.lab", "app": extension.JupyterGQ}]

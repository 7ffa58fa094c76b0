"""The local backend: training workloads as processes of this machine, and the files of their jobs."""

from .backend import LocalRuns
from .bundles import LocalBundles
from .folders import check_folder, describe_unwritable, jobs_with_files
from .options import LocalOptions
from .settings import LocalBackend

__all__ = [
    "LocalBackend",
    "LocalBundles",
    "LocalOptions",
    "LocalRuns",
    "check_folder",
    "describe_unwritable",
    "jobs_with_files",
]

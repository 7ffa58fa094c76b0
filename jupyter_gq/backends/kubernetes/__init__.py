"""Workloads as pods of a Kubernetes cluster: its API server holds them, its scheduler binds them, kubelets run them."""

from typing import TYPE_CHECKING

from jupyter_gq.domain.pod_pool import PodPool, find_pool

from .clocks import Clocks
from .options import KubernetesOptions

if TYPE_CHECKING:
    from .backend import KubernetesRuns
    from .settings import KubernetesBackend

__all__ = ["Clocks", "KubernetesBackend", "KubernetesOptions", "KubernetesRuns", "PodPool", "find_pool"]


def __getattr__(name: str) -> "type[KubernetesRuns | KubernetesBackend]":
    """Return `KubernetesRuns` or `KubernetesBackend`, imported at the first use; raise `AttributeError` otherwise.

    So this package can be imported on a machine without the Kubernetes client.
    """
    if name == "KubernetesRuns":
        from .backend import KubernetesRuns

        return KubernetesRuns
    if name == "KubernetesBackend":
        from .settings import KubernetesBackend

        return KubernetesBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Workloads as pods of a Kubernetes cluster: its API server holds them, its scheduler binds them, kubelets run them."""

from .backend import KubernetesRuns
from .options import KubernetesOptions
from .pools import PodPool, pool_of
from .settings import KubernetesBackend

__all__ = ["KubernetesBackend", "KubernetesOptions", "KubernetesRuns", "PodPool", "pool_of"]

"""The choice of variables of a notebook server's environment that a job gets. Pure, standard library only."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

#: Variables that only we set, whatever a manifest says.
RESERVED = (
    *("JUPYTERHUB_*", "JPY_*", "GQ_*", "JUPYTER_GQ_*"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_*"),
)

#: Variables by which a share of a GPU limits the memory of frameworks; a job has those of its own share.
CAP_VARIABLES = ("XLA_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH", "CUPY_GPU_MEMORY_LIMIT")

#: Variables by which the tasks of a job find each other; the backends set them.
GANG_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("NNODES", "NODE_RANK", "NPROC_PER_NODE", "PET_*", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"),
)


def select_variables(given: object, kept_back: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of a manifest that a job gets; none if `given` is no mapping.

    Reserved names, names in `kept_back` (names or patterns), and variables that no environment can have are left out.
    """
    if not isinstance(given, Mapping):
        return {}
    refused = (*RESERVED, *kept_back)
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, str) and _possible(name, value) and not matches(name, refused)
    }


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name equals one of the patterns or fits one, as a shell pattern with `*`, `?` and `[...]`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _possible(name: object, value: str) -> bool:
    return isinstance(name, str) and bool(name) and "=" not in name and "\0" not in name and "\0" not in value

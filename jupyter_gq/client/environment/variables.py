"""The choice of variables of a notebook server's environment that a job gets. Pure, standard library only."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from jupyter_gq.domain.json_types import JsonObject

#: A character that no name of a variable of a job has; control characters are refused in all names.
NO_VARIABLE = re.compile(r"[=\s]")
#: Variables that only we set, whatever a manifest says.
RESERVED = (
    *("JUPYTERHUB_*", "JPY_*", "GQ_*", "JUPYTER_GQ_*"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_*"),
)

#: The variables of JAX, the present one first; later versions read both, but refuse both together.
_JAX, _JAX_OLDER = JAX_FRACTIONS = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
_CUPY = "CUPY_GPU_MEMORY_LIMIT"
#: Fraction of a device that frameworks may take in a share; only shares of a part of a device have it.
MEMORY_FRACTION = "JUPYTER_GQ_MEMORY_FRACTION"
#: Variables by which a share of a GPU limits the memory of frameworks; a job has those of its own share.
CAP_VARIABLES = (_JAX, "TF_FORCE_GPU_ALLOW_GROWTH", _CUPY)
#: All variables of which `add_share_variables` lays those of a share on those of the user.
LIMIT_VARIABLES = (*CAP_VARIABLES, _JAX_OLDER)

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


def add_share_variables(theirs: Mapping[str, str], share: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a user with those of a share, which win, except over a smaller limit of the user's.

    A fraction for JAX that the user has under the older name only stays under that name. A limit that is no number
    stays as it is: its framework refuses such a text, and a kernel replaces it and tells the user. The share may have
    such limits too, where those of an administrator were laid on them before.
    """
    merged = {**theirs, **share}
    ours = next((name for name in JAX_FRACTIONS if name in share), None)
    if ours is not None:
        names = [name for name in JAX_FRACTIONS if theirs.get(name)]
        fraction = _choose_limit([theirs[name] for name in names], share[ours], _read_number(share[ours]))
        merged = {name: value for name, value in merged.items() if name not in JAX_FRACTIONS}
        merged[(names or [ours])[0]] = fraction
    if _CUPY in share:
        most = _read_number(share[_CUPY])
        if "" in most:
            most["%"] = 100 * float(share.get(MEMORY_FRACTION, 1))
        merged[_CUPY] = _choose_limit([theirs.get(_CUPY, "")], share[_CUPY], most)
    return merged


def keep_one_fraction(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program; of those of a share, with only one name of JAX's fraction of the memory.

    JAX refuses to start with both. The smaller value stays, under the older name, which every JAX knows. Outside a
    share nothing changes.
    """
    if MEMORY_FRACTION not in variables or not all(variables.get(name) for name in JAX_FRACTIONS):
        return dict(variables)
    share = {name: value for name, value in variables.items() if name != _JAX_OLDER}
    return add_share_variables({_JAX_OLDER: variables[_JAX_OLDER]}, share)


def read_limits(variables: Iterable[JsonObject]) -> dict[str, str]:
    """Return the values of `LIMIT_VARIABLES` among the variables of a container, for those that have a plain one."""
    return {
        each["name"]: each["value"] for each in variables if each.get("name") in LIMIT_VARIABLES and each.get("value")
    }


def _choose_limit(given: Iterable[str], ours: str, most: Mapping[str, float]) -> str:
    """Return the smallest of the given limits that are at most that of their unit, or no number; `ours` without one.

    `most` has the largest limit by unit, which is the end of the text: "" or "%". Limits of another unit are not taken.
    """
    kept = []
    for text in filter(None, given):
        unit = "%" if text.strip().endswith("%") and "%" in most else ""
        if unit not in most:
            continue
        number = _read_number(text).get(unit, most[unit])
        if 0 < number <= most[unit]:
            kept.append((number, text))
    return min(kept, default=(0, ours))[1]


def _read_number(text: str) -> dict[str, float]:
    """Return the number of a limit by its unit, which is the end of the text: "" or "%"; {} if it is no number."""
    unit = "%" if text.strip().endswith("%") else ""
    try:
        return {unit: float(text.strip().removesuffix(unit))}
    except ValueError:
        return {}

"""The secrets of a job, read when a run starts. Standard library only."""

from collections.abc import Mapping, Sequence

from jupyter_gq.client.environment.user_secrets import is_valid_name, read_secret
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.runner.problems import RunError


def read_secrets(names: Sequence[str], environ: Mapping[str, str], *, in_pod: bool) -> dict[str, str]:
    """Return the values of a job's secrets: in a pod from its variables, else from the files in the user's home.

    Raises `RunError` with what to do if one of them is missing or cannot be used.
    """
    found = {}
    for name in names:
        value = environ.get(name) if in_pod else _read(name, environ.get("HOME", "/"))
        if value is None:
            where = "in this pod" if in_pod else "on this machine"
            raise RunError(
                f"The secret {name} is not stored {where}, so nothing was run. Store it, then send the cell again."
            )
        found[name] = value
    return found


def _read(name: str, home: str) -> str | None:
    try:
        return read_secret(home, name) if is_valid_name(name) else None
    except UnusableFile as error:
        raise RunError(f"The secret {name} cannot be used: {error.problem}. Nothing was run.") from error

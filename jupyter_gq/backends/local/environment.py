"""The environment variables of a task.

Four sources are combined, and later ones override earlier ones: the service's own variables that jobs keep, the
notebook server's variables (from the manifest), the variables of the launch, and the task's own. No secret of the
service is passed on.
"""

import os
from collections.abc import Mapping, Sequence

from jupyter_gq.client.environment.variables import CAP_VARIABLES, matches, select_variables

from .accounts import UnixAccount

#: Variable that marks every process of a task; for its value see `ledger.Run.mark`.
MARK = "JUPYTER_GQ_RUN"
#: Default of `LocalBackend.env_keep`: the service's variables that jobs keep.
KEPT_VARIABLES = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "JUPYTER_PATH",
    "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME",
)  # fmt: skip


def base_environment(
    account: UnixAccount, kept: Sequence[str], manifest: Mapping[str, object], launch: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that all tasks of a run share.

    `kept` are patterns for names of the service's variables; `manifest` and `launch` are the variables of these two. If
    the service must become the account's user, HOME, USER, LOGNAME and SHELL are that user's. The memory limits of the
    share are left out: each task has its own.
    """
    environment = {name: value for name, value in os.environ.items() if matches(name, kept)}
    environment |= select_variables(manifest)
    if account.switch:
        environment |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell}
    return environment | {name: value for name, value in launch.items() if name not in CAP_VARIABLES}

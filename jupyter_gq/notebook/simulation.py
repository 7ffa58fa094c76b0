"""On simulated GPUs: say how much GPU memory this process would use.

The simulated devices read `<temporary folder>/jupyter-gq-sim-<uid>/<pid>`, which holds whole MiB as text.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from math import inf
from numbers import Real
from pathlib import Path


def simulate_memory(mib: float) -> None:
    """Pretend that this process uses `mib` MiB of GPU memory, until it ends or calls this again; 0 = none.

    Only simulated GPUs read the amount; on real GPUs the driver tells. Raises `ValueError` for what is no such amount.
    """
    if not isinstance(mib, Real) or not 0 <= mib < inf:
        raise ValueError(f"simulate_memory({mib!r:.100}): the amount of memory is a number of MiB, 0 or more")
    report = _folder() / str(os.getpid())
    temporary = report.with_name(f"{report.name}.tmp")
    temporary.write_text(str(round(mib)), encoding="ascii")
    temporary.replace(report)
    atexit.unregister(_remove)
    atexit.register(_remove, report, os.getpid())


def _folder() -> Path:
    """Return the folder of this user's reports, made if missing; raise `PermissionError` if it is another user's."""
    folder = Path(tempfile.gettempdir(), f"jupyter-gq-sim-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; remove it or set TMPDIR")
    return folder


def _remove(report: Path, pid: int) -> None:
    """Remove the report, unless this is a forked copy of the process that wrote it."""
    if os.getpid() == pid:
        report.unlink(missing_ok=True)

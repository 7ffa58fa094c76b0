"""What a process says of its simulated memory lasts as long as the process."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.notebook import simulation

REPOSITORY = Path(__file__).parents[3]


def test_a_report_is_there_while_the_process_lives(tmp_path: Path) -> None:
    code = (
        "import jupyter_gq, os, pathlib\n"
        "jupyter_gq.simulate_memory(100)\n"
        "jupyter_gq.simulate_memory(2500.4)\n"
        f"folder = pathlib.Path({str(tmp_path)!r}, f'jupyter-gq-sim-{{os.getuid()}}')\n"
        "print((folder / str(os.getpid())).read_text(), oct(folder.stat().st_mode & 0o777), flush=True)\n"
        "if os.fork() == 0: raise SystemExit\n"
        "os.wait()\n"
        "print(len(list(folder.iterdir())))\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["2500", "0o700", "1"]
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "x", None])
def test_what_is_no_amount_of_memory_is_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="a number of MiB, 0 or more"):
        simulation.simulate_memory(amount)


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"jupyter-gq-sim-{os.getuid()}"
    folder.mkdir(mode=0o700)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    real = Path.lstat

    class SomebodyElse:
        st_uid = os.getuid() + 1

    monkeypatch.setattr(simulation.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(Path, "lstat", lambda path: SomebodyElse() if path == folder else real(path))
    with pytest.raises(PermissionError, match="somebody else"):
        simulation.simulate_memory(1)

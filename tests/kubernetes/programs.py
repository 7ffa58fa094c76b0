"""Programs that a test session starts, each with a log, and that end with it whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(__file__).with_name("tools") / "build.sh"

# Reads ids of process groups, one a line, and ends those groups when its input ends: that is when the test session
# is gone, also if it was killed.
_KEEPER = """
import os, signal, sys
groups = set()
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    number = int(line)
    if number > 0:
        groups.add(number)
    else:
        groups.discard(-number)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
"""


def tools_folder() -> Path:
    """Where the programs of the control plane are, or will be when they are built."""
    answer = subprocess.run([TOOLS, "--where"], capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


def missing_programs(*names: str) -> str:
    """One sentence if some are missing, else nothing."""
    folder = tools_folder()
    missing = [name for name in names if not os.access(folder / name, os.X_OK)]
    if not missing:
        return ""
    return (
        f"No {', '.join(missing)} in {folder}: run `make cluster-tools` (it needs Go 1.25 or newer), or set "
        "KUBEBUILDER_ASSETS to a folder that has them."
    )


class Programs:
    """Starts and ends programs. `end` ends what is left, in the opposite order of the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen] = {}
        self._keeper = subprocess.Popen(
            [sys.executable, "-S", "-c", _KEEPER], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def start(self, name: str, command, environment=None, **more) -> subprocess.Popen:
        """Start it in a process group of its own; its output is added to `<name>.log`."""
        with (self.folder / f"{name}.log").open("ab") as log:
            program = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | (environment or {}),
                **more,
            )
        self.keep(program.pid)
        self._running[name] = program
        return program

    def keep(self, group: int) -> None:
        """This process group ends with the session, however the session ends."""
        self._tell(group)

    def forget(self, group: int) -> None:
        """This process group has ended: its number may soon be another's."""
        self._tell(-group)

    def _tell(self, number: int) -> None:
        self._keeper.stdin.write(f"{number}\n")
        self._keeper.stdin.flush()

    def running(self, name: str) -> bool:
        program = self._running.get(name)
        return program is not None and program.poll() is None

    def log(self, name: str, characters: int = 3000) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-characters:]

    def stop(self, name: str, number: int = signal.SIGTERM, patience: float = 20) -> None:
        """Ask it to end; make it end after that many seconds."""
        program = self._running.pop(name, None)
        if program is None:
            return
        with contextlib.suppress(ProcessLookupError):
            program.send_signal(number)
        try:
            program.wait(patience)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        self.forget(program.pid)

    def end(self) -> None:
        for name in reversed(list(self._running)):
            self.stop(name, signal.SIGKILL)
        self._keeper.stdin.close()
        self._keeper.wait()

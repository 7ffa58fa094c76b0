"""Programs that a test session starts, each with a log, and that end with it whatever happens."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from tests.kept_logs import LOGS
from tests.kubernetes.marks import end_marked
from tests.patience import scaled

ROOT = Path(__file__).resolve().parents[2]
#: See docs/decisions/0350-build-the-programs-of-a-cluster-from-one-module.md.
TOOLS = Path(__file__).with_name("tools") / "build.sh"

#: In the environment of every process that comes from a session, with a value of that session's own.
SESSION_MARK = "JUPYTER_GQ_TEST_SESSION"

# Ends what carries the mark when its input ends: that is when the test session is gone, also if it was killed.
_KEEPER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.read()
sys.path.insert(0, sys.argv[1])
from marks import end_marked
end_marked(sys.argv[2])
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
        f"No {', '.join(missing)} in {folder}: run `make cluster-tools` (it needs Go 1.26 or newer), or set "
        "KUBEBUILDER_ASSETS to a folder that has them."
    )


class Programs:
    """Starts and ends programs. `end` ends what is left, in the opposite order of the start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self._running: dict[str, subprocess.Popen] = {}
        self._keeper = subprocess.Popen(
            [sys.executable, "-S", "-c", _KEEPER, str(Path(__file__).parent), self._entry],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def _entry(self) -> str:
        return f"{SESSION_MARK}={self.mark}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment so that it ends with the session, however the session ends."""
        return {SESSION_MARK: self.mark}

    def start(self, name: str, command, environment=None, **more) -> subprocess.Popen:
        """Start it in a process group of its own; its output is added to `<name>.log`."""
        LOGS.add("control-plane", self.folder, "*.log")
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | self.environment | (environment or {}),
                **more,
            )
        return self._running[name]

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
            program.wait(scaled(patience))
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def end(self) -> None:
        for name in reversed(list(self._running)):
            self.stop(name, signal.SIGKILL)
        end_marked(self._entry)
        self._keeper.stdin.close()
        self._keeper.wait()
        LOGS.release("control-plane", self.folder)

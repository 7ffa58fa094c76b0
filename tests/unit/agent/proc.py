"""A /proc in a folder, with the files that the agent reads."""

from pathlib import Path

UID = "0f6f7c4e-8a41-4a1e-9d0e-3b1f4f6f7a10"
OTHER = "7b0f0a52-11d1-47d0-8f3a-5be0f2a2c001"


class FakeProc:
    """A fake /proc with the processes that the test adds."""

    def __init__(self, folder: Path):
        self.folder = folder

    def add(self, pid, *, pod=None, parent=1, nodes=(), name="python", ticks=5):
        """Add a process of that pod, started then; its container has the files `nodes` in /dev. Return its folder."""
        home = self.folder / str(pid)
        dev = home / "root" / "dev"
        dev.mkdir(parents=True)
        for node in nodes:
            (dev / node).touch()
        group = "/system.slice/sshd.service" if pod is None else f"/kubepods/burstable/pod{pod}/4f6a"
        (home / "cgroup").write_text(f"0::{group}\n")
        between = "0 -1 4194560 " + "0 " * 12
        (home / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {pid} {between}{ticks} 0 0\n")
        mark = b"" if pod is None else f"JUPYTER_GQ_POD_UID={pod}".encode() + b"\0"
        (home / "environ").write_bytes(b"HOME=/root\0" + mark + b"LAST=1\0")
        return home

"""The disk below the service's state: a file with a file system in it, which can be full and can stall."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

_PROGRAMS = ("mkfs.ext4", "mount", "umount", "fsfreeze")
_SIZE = 2 * 1024**3


class OwnDisk:
    """A folder that is a disk of its own where that is possible: as root, with loop devices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Why there is no disk of its own; "" if there is one.
        self.missing = "not mounted"

    def mount(self) -> None:
        """Make the disk; if that cannot be done, the folder is a plain one and `missing` says why."""
        self.folder.mkdir()
        self.missing = self._try_mount()

    def unmount(self) -> None:
        """Detach the disk; everything on it is lost."""
        if not self.missing:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
            self._image.unlink()

    @contextlib.contextmanager
    def full(self):
        """Leave no room on the disk during the block."""
        filler = self.folder / "filler"
        try:
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                room = os.statvfs(self.folder)
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
                file.seek(0, os.SEEK_END)
                while True:
                    file.write(b"x" * 1024)
            yield
        finally:
            filler.unlink(missing_ok=True)

    @contextlib.contextmanager
    def stalled(self):
        """Let every write to the disk wait until the end of the block."""
        subprocess.run(["fsfreeze", "-f", str(self.folder)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", str(self.folder)], check=True)

    @property
    def _image(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.img")

    def _try_mount(self) -> str:
        if os.geteuid() != 0:
            return "mounting a disk needs root"
        if absent := [name for name in _PROGRAMS if shutil.which(name) is None]:
            return f"not installed: {', '.join(absent)}"
        with self._image.open("wb") as image:
            image.truncate(_SIZE)
        # Without a reserve for root, a full disk is full for the service too.
        commands = (
            ["mkfs.ext4", "-q", "-m", "0", str(self._image)],
            ["mount", "-o", "loop", str(self._image), str(self.folder)],
        )
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self._image.unlink()
                return f"{command[0]}: {done.stderr.strip()}"
        return ""

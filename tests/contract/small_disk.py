"""A small disk, to be full."""

import contextlib
import os
import shutil
import subprocess

import pytest


@contextlib.contextmanager
def mounted(folder, size="512k", inodes=0):
    """Make this folder a disk of so many bytes; skip the test where that cannot be done.

    `inodes`: the most files and folders on the disk, itself included; 0 for no limit.
    """
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    """Leave no room on the disk of this folder."""
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1024)
        except OSError:
            return

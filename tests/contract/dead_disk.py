"""A file system that answers nobody, as NFS does without its server."""

import contextlib
import ctypes
import os
import secrets
import subprocess
from pathlib import Path

import pytest


@contextlib.contextmanager
def covered(folder):
    """Put a file system that answers nobody on this folder; skip the test where that cannot be done.

    All who wait for its answer get an error at the end. The folder may be moved meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"a file system of this process needs /dev/fuse: {error}")
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        library, name = ctypes.CDLL(None, use_errno=True), f"silent-{secrets.token_hex(4)}"
        if library.mount(name.encode(), os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
            pytest.skip(f"a file system cannot be mounted here: {os.strerror(ctypes.get_errno())}")
        try:
            yield folder
        finally:
            os.close(device)  # nobody can answer now, so that all calls end
            device = -1
            mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
            (mount,) = (words[1] for words in mounts if words[0] == name)
            subprocess.run(["umount", "-l", mount], check=True)
    finally:
        if device >= 0:
            os.close(device)

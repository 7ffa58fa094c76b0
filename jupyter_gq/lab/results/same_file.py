"""Two paths that lead to one file: through a link to the file, or through a link to one of its folders.

The contents of Jupyter describe a link to a file and not the file, so a page cannot tell such a path from a copy.

See docs/decisions/0330-ask-the-server-whether-two-paths-are-one-file.md.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jupyter_core.paths import is_hidden
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_gq.lab.bundle.runtime import remove_drive
from jupyter_gq.lab.jupyter_parts import Contents

#: Seconds that the disk of the user's files may take to answer.
_DISK_TIMEOUT = 5.0


class FileComparer:
    """Threads that compare paths, two at a time: a disk that does not answer takes no other thread of the server."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="jupyter-gq-same-file")

    async def is_same_file(self, one: str, other: str, seconds: float = _DISK_TIMEOUT) -> bool:
        """Return whether two paths of the contents manager lead to one file.

        Raises `HTTPError` 504 if the disk does not say so within `seconds`.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(self._threads, is_same_file, self._contents, one, other)
        except TimeoutError:
            raise HTTPError(504, f"The disk of these files gave no answer within {seconds:g} s.") from None

    def close(self) -> None:
        """End the threads that have nothing to do; the others end when the disk answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def is_same_file(contents: Contents, one: str, other: str) -> bool:
    """Return whether two paths of the contents manager lead to one file on the disk of this server.

    False if one of them has "..", is hidden from the user or names no file, or if the files are not on a disk.
    """
    paths = [remove_drive(path) for path in (one, other)]
    if not isinstance(contents, FileContentsManager) or any(".." in Path(path).parts for path in paths):
        return False
    files = [os.path.join(contents.root_dir, path.lstrip("/")) for path in paths]
    try:
        if not contents.allow_hidden and any(is_hidden(file, contents.root_dir) for file in files):
            return False
        return all(map(os.path.isfile, files)) and os.path.samefile(*files)
    except (OSError, ValueError):  # such as a path with a NUL
        return False

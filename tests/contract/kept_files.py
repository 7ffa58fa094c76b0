"""The places of the files of jobs, each with what the tests need around it."""

import json
from pathlib import Path

from jupyter_gq.backends.bundles import LogName
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl, open_place
from jupyter_gq.backends.local import LocalBundles
from jupyter_gq.store.sql import SqlStore
from tests.patience import scaled

BUNDLE = {"manifest": {"cwd": "/"}, "notebook": {"cells": ["ä"]}}
MIB = 1024 * 1024


class LocalFiles:
    """Folders of this machine; the runner writes into them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "state"
        self.bundles = LocalBundles(self._folder)

    def put_log(self, job: str, run: int, task: int, text: str) -> None:
        folder = self._folder / "jobs" / job / "runs" / str(run) / str(task)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log").write_text(text)

    def write(self, job: str, bundle: dict[str, object], limit: int = MIB) -> None:
        self.bundles.write(job, "ann", bundle, limit)

    def read(self, job: str) -> object:
        file = self._folder / "jobs" / job / "bundle.json"
        return json.loads(file.read_text()) if file.exists() else None

    def close(self) -> None:
        """Nothing is open."""


class StoredFiles:
    """Files in the database; the runner sends what it has."""

    def __init__(self, folder: Path) -> None:
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self.bundles = self._open(folder)

    def _open(self, folder: Path) -> StoredBundles:
        return StoredBundles(self.store, self.store)

    def write(self, job: str, bundle: dict[str, object], limit: int = MIB) -> None:
        self.bundles.stage(bundle, limit)
        self.bundles.write(job, "ann", bundle, limit)

    def read(self, job: str) -> object:
        return self.bundles.bundle(job)

    def put_log(self, job: str, run: int, task: int, text: str) -> None:
        self.bundles.put_log(LogName(job=job, owner="ann", run=run, task=task), text)

    def close(self) -> None:
        self.bundles.close()
        self.store.close()


class FilesAtUrl(StoredFiles):
    """Files in the database, and large ones at a URL."""

    def _open(self, folder: Path) -> StoredBundles:
        (folder / "objects").mkdir(exist_ok=True)
        self.contents = ContentsAtUrl(open_place(self.url(folder)), "0123456789abcdef", timeout=scaled(15))
        self.contents.start()
        assert self.contents.trouble == ""
        return StoredBundles(self.store, self.store, self.contents)

    def read(self, job: str) -> object:
        bundle = self.bundles.bundle(job)
        is_large = bundle is not None and len(json.dumps(bundle)) > 32 * 1024
        assert (self.store.file(job, "bundle.json") is None) == (bundle is None or is_large)
        return bundle


class FilesAtFolder(FilesAtUrl):
    """Large files in a folder of this machine."""

    def url(self, folder: Path) -> str:
        return f"file://{folder}/objects"


class FilesAtMemory(FilesAtUrl):
    """Large files in the memory of this process."""

    def url(self, folder: Path) -> str:
        return f"memory://{folder.name}/objects"

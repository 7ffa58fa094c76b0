"""The place of a URL that fsspec supports: a file system and a path in it.

This module alone imports fsspec, which is optional where no URL is set.

See docs/decisions/0422-start-whatever-the-store-of-large-files-does.md.
"""

from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import hide_urls, quoted
from jupyter_gq.domain.store_url import explain_fault_in_url, explain_secret_in_url


class FileSystem(Protocol):
    """The part of fsspec's file systems that is used here; options have names, since their order differs."""

    def cat_file(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def pipe_file(self, path: str, value: bytes) -> None:
        """Write a file."""
        ...

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        ...

    def ls(self, path: str, *, detail: bool) -> list[str]:
        """Return the paths in a folder; `detail` must be False. Raises `FileNotFoundError` if there is no folder."""
        ...

    def mkdir(self, path: str, *, create_parents: bool) -> None:
        """Make a folder, and those above it or a bucket only with `create_parents`."""
        ...

    def invalidate_cache(self) -> None:
        """Forget cached listings, so that `ls` asks the store again."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A file system of fsspec and a path in it."""

    fs: FileSystem
    root: str
    #: The URL, for sentences to administrators; it holds no credentials.
    shown: str


#: What a sentence about credentials in a setting adds: who gets them instead.
_CREDENTIALS = {
    "bundle_url": "to the service in variables of its environment, from a Secret: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY for s3, FSSPEC_SFTP_PASSWORD for sftp. The chart takes the name of that Secret in "
    "bundles.secretName.",
    "checkpoint_url": "to the pods of jobs by an identity of the cloud or by pod_overrides.",
}


def require_usable_url(trait: str, url: str) -> None:
    """Raise `AdminError` if this trait of `KubernetesBackend` must not have a URL: it has a secret or names no place.

    The error does not show the URL.
    """
    if secret := explain_secret_in_url(url):
        raise AdminError(
            f"KubernetesBackend.{trait} has {secret}. Settings are stored and shown, so write the URL without them, "
            f"such as s3://bucket/folder. Give credentials {_CREDENTIALS[trait]}"
        )
    if fault := explain_fault_in_url(url):
        raise AdminError(
            f"KubernetesBackend.{trait} {fault}. Set the URL of a store that lasts and that fsspec supports, such as "
            "s3://bucket/folder."
        )


def open_place(url: str) -> Place:
    """Return the place of a URL that `require_usable_url` accepts, without a connection: the first call connects.

    Raises `AdminError` if fsspec or a package for this kind of URL is missing, or if the kind is unknown.
    """
    scheme = url.partition("://")[0]
    try:
        from fsspec import get_filesystem_class  # imported here: optional, and slow to import
    except ImportError as error:
        raise AdminError(
            "KubernetesBackend.bundle_url is set, but the Python package fsspec is missing. Install "
            "jupyter-gq[bundles] where the service runs, and for s3 also s3fs, for gs gcsfs, for abfs adlfs."
        ) from error
    try:
        get_filesystem_class(scheme)
    except ImportError as error:
        raise AdminError(
            f"KubernetesBackend.bundle_url is a URL of the kind {scheme}://, for which a Python package is missing: "
            f"{hide_urls(str(error))}. Install it where the service runs."
        ) from error
    except ValueError as error:
        raise AdminError(
            f"KubernetesBackend.bundle_url is of a kind that is not known, {quoted(scheme + '://')}. Set a URL "
            "that fsspec supports, such as s3://bucket/folder."
        ) from error
    return Place(fs=_ConnectsLate(url), root="", shown=url)


class _ConnectsLate:
    """The file system of a URL; paths are below that URL.

    Some kinds connect when they are opened, and a store that is away must not keep the service from starting. So the
    first call opens it, and so does each later one until that has succeeded.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[FileSystem, str] | None = None

    def cat_file(self, path: str) -> bytes:
        fs, root = self._open()
        return fs.cat_file(root + path)

    def pipe_file(self, path: str, value: bytes) -> None:
        fs, root = self._open()
        fs.pipe_file(root + path, value)

    def rm_file(self, path: str) -> None:
        fs, root = self._open()
        fs.rm_file(root + path)

    def ls(self, path: str, *, detail: bool) -> list[str]:
        fs, root = self._open()
        return fs.ls(root + path, detail=detail)

    def mkdir(self, path: str, *, create_parents: bool) -> None:
        fs, root = self._open()
        fs.mkdir(root + path, create_parents=create_parents)  # by name: s3fs has another second argument

    def invalidate_cache(self) -> None:
        self._open()[0].invalidate_cache()

    def _open(self) -> tuple[FileSystem, str]:
        if self._opened is None:
            from fsspec.core import url_to_fs  # imported here: optional, and slow to import

            fs, root = url_to_fs(self._url)
            self._opened = fs, str(root).rstrip("/")
        return self._opened


def describe_store_error(error: BaseException) -> str:
    """Return the kind of an error of a store and its text in one line, without URLs: these may be signed."""
    text = hide_urls(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

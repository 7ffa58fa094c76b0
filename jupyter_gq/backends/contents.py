"""Contents outside the database: large parts of files, and bundles, as objects with names that the service makes.

Guarantees
----------
- Whole objects: an object that `put` has named is complete.
- Never replaced: each object gets a new name, so what deletes one never deletes the content of a later upload.
- Unreadable names: a name tells the hash of a content, and nothing of users, jobs or files.
- Deadlines: each call ends after some seconds, whatever the store of the objects does.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from jupyter_gq.domain.errors import ContentsUnavailable
from jupyter_gq.store.outside import Content, OutsideContent


class Contents(Protocol):
    """A store of contents outside the database, with calls that block; several threads may call them.

    Calls that ask the place raise `ContentsUnavailable` if the store refuses or does not answer. The text of that error
    is for users.
    """

    def put(self, contents: Sequence[bytes]) -> Sequence[OutsideContent]:
        """Store each content as a new object, and return where they are, in order.

        If one of them cannot be stored, an error is raised. Objects of that call that are stored already have no name
        in the database, so a later sweep deletes them.
        """
        ...

    def get(self, contents: Sequence[OutsideContent]) -> Sequence[bytes]:
        """Return contents in order; raise `NotFound` if an object is gone or damaged."""
        ...

    def delete(self, names: Collection[str]) -> None:
        """Delete objects; no error for those that are gone."""
        ...

    def discard(self, names: Collection[str]) -> None:
        """Begin to delete objects that nothing names, and do not wait; what fails is left to the next sweep."""
        ...

    def names(self) -> frozenset[str]:
        """Return the names of all objects of this installation."""
        ...

    def owner(self) -> str:
        """Return what the last service wrote that used these objects; "" if none has, or it was deleted."""
        ...

    def set_owner(self, owner: str) -> None:
        """Write which service uses these objects, in place of what was there."""
        ...

    def refuse(self, why: str) -> None:
        """Refuse new contents from now on, with `why` as the trouble; "" = refuse them no more for this reason."""
        ...

    @property
    def owner_place(self) -> str:
        """The address of what `owner` returns, for administrators."""
        ...

    def note_lost(self, names: Collection[str]) -> None:
        """Add the names of objects that a sweep has found missing to `lost`."""
        ...

    @property
    def lost(self) -> frozenset[str]:
        """The names of objects that were missing or damaged when they were last read or listed.

        A name leaves the set once its object is read again.
        """
        ...

    def close(self) -> None:
        """End the work in the background; later calls may fail."""
        ...

    @property
    def trouble(self) -> str:
        """Why no content can be stored now, as a sentence for administrators; "" = nothing is known to be wrong.

        Reading is refused too if the place gave no answer; after any other failure, `get` still tries.
        """
        ...


def read_contents(outside: Contents | None, contents: Iterable[Content]) -> list[bytes]:
    """Return the bytes of contents in order, and fetch those that are outside the database.

    `outside` is where they are; None = this service has no such place. Raises `ContentsUnavailable` or `NotFound`.
    """
    listed = list(contents)
    wanted = [each for each in listed if isinstance(each, OutsideContent)]
    if not wanted:
        return [each for each in listed if isinstance(each, bytes)]
    if outside is None:
        raise ContentsUnavailable(
            "This content is at a URL, but KubernetesBackend.bundle_url is not set any more. Ask your administrator to "
            "set it again."
        )
    fetched = iter(outside.get(wanted))
    return [each if isinstance(each, bytes) else next(fetched) for each in listed]

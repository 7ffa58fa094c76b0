"""Contents outside the database: the rows of large parts and bundles, which name an object instead of holding bytes.

Rules
-----
- Small contents stay: a content below `LEAST_OUTSIDE` bytes is always in its row.
- Told by size: the row of a part has the true size. A row whose content is shorter holds the name of an object. The
  service counts the size itself, and no name has `LEAST_OUTSIDE` bytes, so no content can pass for a name.

See docs/decisions/0375-keep-large-contents-at-a-url-and-their-names-in-the-database.md.
"""

from dataclasses import dataclass

#: The smallest content, in bytes, that may be outside: for smaller ones a request to an object store costs more than it
#: saves, and a page of parts would need too many requests.
LEAST_OUTSIDE = 32 * 1024
#: Name of the file of a workload that names the object with its bundle.
OUTSIDE_BUNDLE = "bundle.outside"
#: Name of the setting with the claims of this database on the objects outside it, and of its field: the texts of which
#: one is at the place of the objects.
OWNER, CLAIMS = "contents_owner", "claims"
#: Name of the setting that a restore of a backup leaves, and of its field: the seconds for which services have worked
#: since then.
RESTORED, RESTORED_HELD = "restored", "held"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutsideContent:
    """A content of at least `LEAST_OUTSIDE` bytes that is kept outside the database."""

    #: Name of the object that has it.
    name: str
    #: In bytes.
    size: int


#: What the database knows of the content of a part: its bytes, or where they are.
Content = bytes | OutsideContent


def size_of(content: Content) -> int:
    """Return the number of bytes of a content, wherever it is."""
    return len(content) if isinstance(content, bytes) else content.size


def encode_content(content: Content) -> bytes:
    """Return what a row holds: the content, or the name of its object."""
    return content if isinstance(content, bytes) else content.name.encode("ascii")


def decode_content(kept: bytes, size: int) -> Content:
    """Return the content of a row with the bytes `kept`; `size` is the true size of the content.

    If `kept` is shorter, it is the name of the object that has the content.
    """
    return kept if len(kept) == size else OutsideContent(name=kept.decode("ascii"), size=size)

"""Texts and names of variables that look like paths of files."""

import re

#: A path that ends with the ending of a file, such as `.csv` or `.R`: one case, and no underscore.
_FILE_NAME = re.compile(r"(?!\w+://)[^\n*?]{1,500}\.(?:[a-z][a-z0-9]{0,9}|[A-Z][A-Z0-9]{0,9})")
#: A version such as `v1.a` and `1.0.dev2`, or a text that ends with one, such as `model.v2`.
_VERSION = re.compile(
    r"v?\d+(?:\.\d+)*\.(?:a|b|c|rc|alpha|beta|dev|post|pre|final|stable|latest)\d*|.*\.v\d+", re.IGNORECASE
)
#: A name with a word for paths, or one that ends with a word for a destination: `output_layer` holds none.
_PATH_NAME = re.compile(
    r"(?:.*_)?(?:(?:path|file|filename|fname|folder|directory|dir)s?(?:_.*)?|(?:out|output|dest)s?_?\d*)", re.IGNORECASE
)


def is_file_name(text: str) -> bool:
    """Return whether a text ends like a file name: a dot, a letter, then letters of one case or digits.

    False for URLs, patterns and versions.
    """
    return _FILE_NAME.fullmatch(text) is not None and _VERSION.fullmatch(text) is None


def names_path(variable: str) -> bool:
    """Return whether a variable probably holds the path of a file, by its name."""
    return _PATH_NAME.fullmatch(variable) is not None

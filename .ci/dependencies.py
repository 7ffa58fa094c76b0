"""The packages that an extra of jupyter-gq needs, one a line: `dependencies.py EXTRA`.

pip installs them while the lab extension is built, which the package itself needs.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]


def needed_by(extra: str) -> Iterator[str]:
    """Yield the requirements of an extra; it may name other extras of the package."""
    for each in PROJECT["optional-dependencies"][extra]:
        if own := re.fullmatch(rf"{PROJECT['name']}\[(.+)\]", each):
            for name in own[1].split(","):
                yield from needed_by(name)
        else:
            yield each


if __name__ == "__main__":
    print(*dict.fromkeys([*PROJECT["dependencies"], *needed_by(sys.argv[1])]), sep="\n")  # noqa: T201 - for pip

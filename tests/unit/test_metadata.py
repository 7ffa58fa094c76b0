"""Package indexes show who made the package and where it is documented."""

import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_the_package_names_its_authors_and_its_pages() -> None:
    assert all(author["name"] for author in PROJECT["authors"])
    assert {"Documentation", "Changelog"} <= PROJECT["urls"].keys()
    assert all(address.startswith("https://") for address in PROJECT["urls"].values())

"""The versions of packages are found by the metadata in a kernel's folders, as Python itself would find them."""

import sys
from importlib import metadata
from pathlib import Path

import pytest

from jupyter_gq.lab.carrying.packages import find_versions


def install(site: Path, name: str, version: str, **lists: str) -> None:
    """Write the metadata of a package; `lists` has the texts of its files by their names with `_` for a dot."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, text in lists.items():
        (folder / file.replace("_txt", ".txt")).write_text(text)


@pytest.mark.parametrize(
    ("lists", "module", "found"),
    [
        ({"RECORD": "net/__init__.py,sha256=x,1\n"}, "net", True),
        ({"RECORD": "other.py,,\nnet.py,sha256=x,1\n"}, "net", True),
        ({"RECORD": "net.cpython-311-x86_64-linux-gnu.so,sha256=x,1\n"}, "net", True),
        ({"RECORD": '"net/a,b.py",sha256=x,1\n'}, "net", True),
        ({"RECORD": "other/net.py,sha256=x,1\nother/net/a.py,,\n"}, "net", False),
        ({"RECORD": "net.libs/lib.so,sha256=x,1\n"}, "net", False),
        ({"RECORD": "network/__init__.py,,\nnet-1.dist-info/RECORD,,\n"}, "net", False),
        ({"RECORD": "__pycache__/net.cpython-311.pyc,,\n"}, "net", False),
        ({"RECORD": "nXt/__init__.py,,\n"}, "n.t", False),
        ({"RECORD": "other/__init__.py,,\n", "top_level_txt": "other\nnet\n"}, "net", True),
        ({"RECORD": "net/__init__.py,,\n", "top_level_txt": "other\n"}, "net", False),
        ({"SOURCES_txt": "net/__init__.py\n"}, "net", True),
        ({}, "net", False),
    ],
)
def test_a_package_has_the_modules_of_its_lists(
    tmp_path: Path, lists: dict[str, str], module: str, found: bool
) -> None:
    install(tmp_path, "thing", "1.2", **lists)
    for path in lists.get("SOURCES_txt", "").split():  # of this list, Python 3.13 believes only files that are there
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert find_versions([module, "json"], [str(tmp_path)]) == ({"thing": "1.2"} if found else {})


def test_the_first_of_two_installations_counts(tmp_path: Path) -> None:
    for folder, version in (("user", "2"), ("system", "1")):
        install(tmp_path / folder, "thing", version, RECORD="net/__init__.py,,\n")
    path = [str(tmp_path / "absent"), str(tmp_path / "user"), str(tmp_path / "system")]
    assert find_versions(["net"], path) == {"thing": "2"}


def test_a_namespace_has_the_versions_of_all_its_packages(tmp_path: Path) -> None:
    for name in ("b", "a"):
        install(tmp_path, name, "1", RECORD=f"shared/{name}.py,,\n")
    assert list(find_versions(["shared"], [str(tmp_path)])) == ["a", "b"]


def test_what_is_found_here_is_what_python_finds() -> None:
    known = metadata.packages_distributions()
    wanted = {name: metadata.version(name) for names in known.values() for name in names}
    assert find_versions(known, sys.path) == wanted


@pytest.mark.parametrize("file", ["METADATA", "RECORD", "top_level.txt"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00net\x9c"])
def test_a_damaged_package_is_left_out(tmp_path: Path, file: str, content: bytes | None) -> None:
    install(tmp_path, "good", "1", RECORD="net/a.py,,\n")
    install(tmp_path, "bad", "1", RECORD="net/__init__.py,,\n", top_level_txt="net\n")
    damaged = tmp_path / "bad-1.dist-info" / file
    damaged.unlink() if content is None else damaged.write_bytes(content)
    assert find_versions(["net"], [str(tmp_path)])["good"] == "1"


def test_no_module_needs_no_package() -> None:
    assert find_versions([], sys.path) == {}

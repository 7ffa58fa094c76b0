"""Each file and folder that a page names in backticks exists."""

import re
import subprocess

import pytest

from .pages import PAGES, ROOT, prose, relative

#: Where a path of a page may begin, beside the folder of the page itself.
BASES = ("", "jupyter_gq", "helm/jupyter-gq", "tests", "labextension/src")
#: Names that look like paths of the repository and are files of a reader, or of an alternative that was not taken.
NOT_OURS = {
    ".env.d/x.env.py",
    ".hydra/config.yaml",
    "SNAPSHOT.json",
    "agent.py",
    "answer_key.json",
    "atari.env/",
    "changes/NAME.TYPE.md",
    "checkpoints/",
    "evict_reclaim.py",
    "gcp-key.json",
    "gq.yaml",
    "gym.env.yaml",
    "id_rsa.json",
    "id_rsa_study.csv",
    "jupyter_server_config.py",
    "kaggle-1.json",
    "kaggle.json",
    "key.json",
    "keyfile.json",
    "keys.json",
    "my-project-1a2b3c.json",
    "my.env.py",
    "outputs/",
    "password_strength.csv",
    "passwords.csv",
    "private/sample1.csv",
    "prod.env.json",
    "queues/",
    "service_account.json",
    "tokenizer.json",
}
_PATH = re.compile(r"`([\w.][\w./-]*(?:/|\.(?:csv|Dockerfile|ipynb|json|md|py|sh|toml|ts|tsx|yaml)))`")
_TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
#: Each file of the repository and each of its folders, with a slash before the path and, for folders, after it.
_KNOWN = {f"/{path}" for path in _TRACKED} | {
    f"/{path[: slash.end()]}" for path in _TRACKED for slash in re.finditer("/", path)
}


def exists(path, page):
    """Return whether a path is one from a usual base, or the end of one whose beginning the page leaves out."""
    if any((ROOT / base / path).exists() for base in BASES) or (page.parent / path).exists():
        return True
    return any(known.endswith(f"/{path}") for known in _KNOWN)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=relative)
def test_each_path_that_a_page_names_exists(page):
    named = set(_PATH.findall(prose(page))) - NOT_OURS
    assert [path for path in sorted(named) if not exists(path, page)] == []


ARCHITECTURE = ROOT / "docs/explanation/architecture.md"


def rooms_of_the_architecture_page():
    """Yield each room that has a table of its parts, with the names in the first column."""
    for room, table in re.findall(r"^\*\*`([\w/]+)/`\*\*[^|]*\n((?:\|.*\n)+)", ARCHITECTURE.read_text(), re.M):
        rows = [row.split("|")[1] for row in table.splitlines()[2:]]
        yield pytest.param(room, [name for row in rows for name in re.findall(r"`([^`]+)`", row)], id=room)


@pytest.mark.parametrize(("room", "parts"), rooms_of_the_architecture_page())
def test_the_architecture_page_names_all_parts_of_a_room(room, parts):
    folder = ROOT / "jupyter_gq" / room
    found = {f"{each.name}/" if each.is_dir() else each.name for each in folder.iterdir()}
    assert set(parts) == found - {"__init__.py", "__main__.py", "__pycache__/"}


def test_the_architecture_page_names_all_rooms():
    text = ARCHITECTURE.read_text()
    for folder in (ROOT / "jupyter_gq").iterdir():
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert f"| `{folder.name}/` |" in text, f"the page does not name {folder.name}/"

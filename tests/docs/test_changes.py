"""Each fragment of the changelog has a known type and one paragraph, and the changelog can be built from them."""

import subprocess
import sys
import tomllib

from tests.patience import scaled

from .pages import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
NO_FRAGMENTS = {"README.md", "template.md.jinja"}
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name not in NO_FRAGMENTS)


def test_each_fragment_has_a_known_type():
    known = {kind["directory"] for kind in CONFIG["type"]}
    for path in FRAGMENTS:
        _, kind, suffix = path.name.rsplit(".", 2)
        assert suffix == "md", path.name
        assert kind in known, f"{path.name}: the type is one of {', '.join(sorted(known))}"


def test_each_fragment_is_one_paragraph():
    for path in FRAGMENTS:
        text = path.read_text().strip()
        assert text, f"{path.name} is empty"
        assert "\n\n" not in text, f"{path.name} has more than one paragraph"
        assert text.endswith("."), f"{path.name} does not end with a full stop"


def test_the_readme_of_the_folder_names_the_types():
    readme = (ROOT / "changes/README.md").read_text()
    for kind in CONFIG["type"]:
        assert f"`{kind['directory']}`" in readme


def test_towncrier_can_build_the_next_section():
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "99.0.0", "--date", "2099-01-01"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=scaled(60))
    assert built.returncode == 0, built.stderr
    assert "## 99.0.0 (2099-01-01)" in built.stdout
    for path in FRAGMENTS:
        assert path.read_text().split()[-1] in built.stdout


def test_the_next_release_goes_above_the_last_one():
    text = (ROOT / CONFIG["filename"]).read_text()
    assert text.index(CONFIG["start_string"]) < text.index("\n## ")

"""The image recipes: linted, and everything that they copy, install and start is there."""

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.chart.render import ROOT
from tests.patience import scaled

RECIPES = tuple(sorted((ROOT / "docker").glob("*.Dockerfile")))
#: What the Hub's image of each Zero to JupyterHub that we support has of what we need (images/hub/requirements.txt).
HUB_IMAGES = {
    "4.4.0": {
        "alembic": "1.18.4",
        "jupyter-events": "0.12.1",
        "jupyterhub": "5.5.0",
        "jupyterhub-kubespawner": "7.0.0",
        "pydantic": "2.13.4",
        "sqlalchemy": "2.0.50",
        "tornado": "6.5.7",
        "traitlets": "5.15.1",
    },
    "5.0.0-0.dev (July 2026)": {
        "alembic": "1.18.5",
        "jupyter-events": "0.12.1",
        "jupyterhub": "5.5.0",
        "jupyterhub-kubespawner": "7.1.0",
        "pydantic": "2.13.4",
        "sqlalchemy": "2.0.51",
        "tornado": "6.5.7",
        "traitlets": "5.15.1",
    },
}
#: Made by `make dist`, so not there before.
BUILT = "dist/*.whl"

HOW_TO = ROOT / "docs/how-to/install-beside-zero-to-jupyterhub.md"

each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)


def instructions(recipe):
    """(instruction, its text) with lines that go on joined and comments left out."""
    lines = [line for line in recipe.read_text().splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word.upper(), rest.strip()


def copied(recipe):
    """What is copied from the build context."""
    for word, rest in instructions(recipe):
        if word == "COPY" and "--from=" not in rest:
            yield from rest.split()[:-1]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def ignored(path):
    """Whether `.dockerignore` keeps it out: the last pattern that fits decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            keep, pattern = pattern.startswith("!"), pattern.removeprefix("!")
            if fnmatch(path, pattern) or path.startswith(pattern + "/"):
                out = not keep
    return out


def test_there_is_a_recipe_for_each_image():
    assert [path.stem for path in RECIPES] == ["hub", "runner", "service"]


def test_the_linter_has_nothing_to_say():
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, *RECIPES], capture_output=True, text=True, timeout=scaled(60), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_how_to_builds_on_a_hub_that_is_supported():
    (version,) = re.findall(r"^Z2JH_VERSION=(\S+)", HOW_TO.read_text(), re.MULTILINE)
    assert version in HUB_IMAGES


@each_recipe
def test_everything_that_is_copied_exists_and_is_sent_to_the_builder(recipe):
    sources = list(copied(recipe))
    assert sources
    for source in sources:
        assert source == BUILT or (ROOT / source).exists(), f"{recipe.name} copies {source}, which is not there"
        assert not ignored(source), f".dockerignore keeps {source} from {recipe.name}"


def test_what_the_wheel_is_built_from_is_copied():
    copies = set(copied(ROOT / "docker/service.Dockerfile"))
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], "pyproject.toml", project()["project"]["readme"]}
    needed |= {source.split("/")[0] for source in wheel["shared-data"]} | set(project()["project"]["license-files"])
    assert needed <= copies


def test_nothing_that_was_built_here_goes_into_an_image():
    for built in ("jupyter_gq/labextension", "jupyter_gq/_version.py", "labextension/node_modules", ".venv", ".git"):
        assert ignored(built), built


@each_recipe
def test_every_extra_that_is_installed_exists(recipe):
    extras = set(project()["project"]["optional-dependencies"])
    installs = [rest for word, rest in instructions(recipe) if word == "RUN" and "pip install" in rest]
    assert installs
    for command in installs:
        assert '"${wheel}' in command, "the wheel that was built, not a name that an index may have"
        for wanted in re.findall(r"\$\{wheel\}\[([^\]]+)\]", command):
            assert set(wanted.split(",")) <= extras


@pytest.mark.parametrize("version", HUB_IMAGES)
def test_our_package_goes_into_the_hubs_image_without_changing_what_is_there(version):
    """The recipe holds everything at its version; pip then refuses what contradicts one."""
    there = HUB_IMAGES[version]
    wanted = {canonicalize_name(each.name): each for each in required(ROOT / "docker/hub.Dockerfile")}
    assert {"jupyterhub", "jupyterhub-kubespawner", "tornado", "traitlets"} <= wanted.keys() & there.keys()
    unfit = {
        name: str(each) for name, each in wanted.items() if name in there and not each.specifier.contains(there[name])
    }
    assert unfit == {}


#: What each image may have at versions of its own, or need not have.
OF_OTHERS = {
    "hub": {"jupyterlab", "jupyter-server", "kubernetes", "numpy", "sqlalchemy", "alembic"},
    "runner": {"jupyterhub", "jupyterhub-kubespawner", "kubernetes", "numpy", "sqlalchemy", "alembic"},
    "service": {"jupyterlab", "jupyter-server", "ipykernel", "jupyterhub-kubespawner"},
}
OF_THE_DEMO = {"scikit-learn", "matplotlib", "configurable-http-proxy", "httpx"}


@each_recipe
def test_an_image_gets_what_its_part_needs_and_nothing_of_the_others(recipe):
    wanted = {canonicalize_name(each.name) for each in required(recipe)}
    assert wanted & (OF_OTHERS[recipe.stem] | OF_THE_DEMO) == set()
    assert "pydantic" in wanted


def test_what_make_installs_has_everything():
    everything = {
        name for extra in ("demo", "hub", "kubernetes", "lab", "local", "service") for name in with_extra(extra)
    }
    assert everything <= set(with_extra("dev"))


def required(recipe):
    """What pip is asked for, beside our package itself."""
    extras = {name for each in re.findall(r"\$\{wheel\}\[([^\]]+)\]", recipe.read_text()) for name in each.split(",")}
    wanted = [*project()["project"]["dependencies"], *(each for extra in extras for each in with_extra(extra))]
    return [Requirement(each) for each in wanted]


def with_extra(name):
    """What an extra asks for, those that it names put in."""
    for each in project()["project"]["optional-dependencies"][name]:
        wanted = Requirement(each)
        if wanted.name == project()["project"]["name"]:
            for extra in wanted.extras:
                yield from with_extra(extra)
        else:
            yield each


def test_what_is_started_and_imported_is_in_the_package():
    texts = {recipe.stem: dict(instructions(recipe)) for recipe in RECIPES}
    (program,) = re.findall(r'"([^"]+)"', texts["service"]["ENTRYPOINT"])
    assert program in project()["project"]["scripts"]
    for module in re.findall(r"jupyter_gq(?:\.\w+)+", RECIPES[1].read_text()):
        assert (ROOT / module.replace(".", "/")).exists(), module


def test_the_service_and_the_hub_do_not_run_as_root():
    for recipe in RECIPES:
        users = [rest for word, rest in instructions(recipe) if word == "USER"]
        assert not users or users[-1] == "1000:1000", recipe.name
    assert "USER" in dict(instructions(ROOT / "docker/service.Dockerfile"))

"""Each command and each piece of code on a page is run here, or is marked as not run with a reason.

`blocks.py` describes the marks. Commands that are not run are still read: subcommands and options of `jupyter-gq`,
targets of make, recipes and build arguments of docker have to exist.
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import yaml

from jupyter_gq.app import build_parser
from jupyter_gq.backends.kubernetes import KubernetesBackend
from jupyter_gq.client.state import LiveState, state_document
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.service import SchedulerService
from jupyter_gq.start_sections import find_start_sections
from tests.builders import NOW, Cluster, a_job, a_node, running
from tests.patience import scaled

from .blocks import blocks
from .pages import PAGES, ROOT, prose, relative

ALL = blocks()
#: Languages of blocks that hold no command: diagrams, output and, without a language, plain text.
TEXT = ("", "mermaid")
CODE = [block for block in ALL if block.language not in TEXT and not block.language.startswith("{")]
SHELL = [block for block in CODE if block.language in ("sh", "console")]
PYTHON = [block for block in CODE if block.language == "python"]
#: Folder whose blocks of YAML are values and objects that tests/chart/test_how_tos.py and its neighbours check.
HOW_TO = ROOT / "docs/how-to"


def each(found):
    return pytest.mark.parametrize("block", found, ids=lambda block: block.id)


@each(CODE)
def test_a_block_is_of_a_language_that_is_run_or_is_marked(block):
    if block.mark is None:
        checked = block.language in ("sh", "console", "python") or (
            block.language == "yaml" and block.page.parent == HOW_TO
        )
        assert checked, f"no test runs blocks of {block.language} on this page: write a mark above this one"


@each([block for block in ALL if block.mark == "not run"])
def test_a_block_that_is_not_run_says_why(block):
    assert len(block.told.split()) >= 3, f"{block.told!r} is no reason"


@each([block for block in ALL if block.mark == "run by"])
def test_a_block_that_another_test_runs_is_named_there(block):
    text = (ROOT / block.told).read_text()
    assert block.page.name in text, f"{block.told} does not name {block.page.name}"


@each([block for block in SHELL if block.mark is None])
def test_commands_run_and_print_what_the_page_shows(block, tmp_path, monkeypatch):
    fill_workspace(tmp_path, block.page)
    monkeypatch.chdir(tmp_path)
    printed = ""
    for words in block.commands():
        assert words[0] in RUNNERS, f"{words[0]} is not run here: write a mark above the block"
        done = RUNNERS[words[0]](words)
        assert done.returncode == 0, done.stderr or done.stdout
        printed += done.stdout
    if block.language == "console" and block.output():
        assert block.output() == printed.strip()


@each(SHELL)
def test_what_a_command_names_exists(block):
    """For commands that are not run, too."""
    for words in block.commands():
        check_command(words)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_what_a_command_in_a_sentence_names_exists(page):
    for span in re.findall(r"`((?:jupyter-gq|make|python -m) [^`]+)`", prose(page)):
        words = " ".join(span.split()).split(" ")
        if not {"...", "COMMAND", "TRACE"} & set(words):
            check_command(words)


@pytest.fixture
def short_folder():
    """A folder with a short path: the path of a Unix socket in it has at most 107 bytes."""
    with TemporaryDirectory(prefix="gq-") as folder:
        yield Path(folder)


@each([block for block in PYTHON if block.mark is None])
def test_a_piece_of_python_works(block, short_folder, monkeypatch):
    monkeypatch.chdir(short_folder)
    for name in re.findall(r'os\.environ\["(\w+)"\]', block.text):
        monkeypatch.setenv(name, "a variable that the page tells its reader to set")
    if re.search(r"^c\.|\(c\)", block.text, re.MULTILINE):
        load_settings(block.text, short_folder)
    else:
        exec(compile(block.text, block.id, "exec"), user_code())


# --- running ----------------------------------------------------------------------------------------------------


def run_here(words):
    """Run a `jupyter-gq` command in the current folder."""
    command = [sys.executable, "-m", "jupyter_gq.app", *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=scaled(300))


def render(words):
    """Run `helm install` as `helm template`, which needs no cluster."""
    assert words[1] == "install", "only helm install can be run without a cluster"
    command = ["helm", "template", *(word.replace("$HUB", "hub") for word in words[2:])]
    return subprocess.run(command, capture_output=True, text=True, timeout=scaled(60))


RUNNERS = {"jupyter-gq": run_here, "helm": render}


def fill_workspace(folder, page):
    """Put into `folder` what a reader has: the examples, the chart, the files that a page shows, and a state."""
    (folder / "docs").mkdir()
    shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
    (folder / "helm").symlink_to(ROOT / "helm")
    for block in ALL:
        name = re.match(r"# (\S+\.yaml)\n", block.text)
        if name and (block.page == page or not (folder / name[1]).exists()):
            (folder / name[1]).write_text(block.text)
    lines = (folder / "docs/examples/team-jobs.csv").read_text().splitlines(keepends=True)
    (folder / "jobs.csv").write_text("".join(lines[:60]))
    shutil.copy(folder / "docs/examples/team-quota.csv", folder / "quota.csv")
    (folder / "state.json").write_text(json.dumps(example_state()))


def example_state():
    """Return a state with the names of the pages: a queue vision, a job j-4711, a node gpu-node-3."""
    cluster = Cluster().queue("vision", quota=4).queue("nlp", quota=4)
    for number in (1, 2, 3):
        cluster.node(f"gpu-node-{number}", devices=4)
    for number in range(14):
        job = a_job(f"j-{4700 + number}", "vision" if number % 2 else "nlp", submitted=number)
        cluster.add(running(job, f"gpu-node-{number // 4 + 1}-{number % 4}") if number < 9 else job)
    snapshot, policy = cluster.snapshot(), Policy()
    state = LiveState(at=NOW, policy=policy, snapshot=snapshot)
    return state_document(state, run_cycle(snapshot, policy, NOW))


def load_settings(text, folder):
    """Load settings as the service does, which refuses what it does not know."""
    file = folder / "jupyterhub_config.py"
    head = "" if "import configure" in text else "from jupyter_gq.hub.config import configure\n\nconfigure(c)\n"
    file.write_text(head + text)
    machine = [a_node(devices=8)]
    PolicyFile(file, lambda: machine, find_start_sections(SchedulerService, KubernetesBackend))


def user_code():
    """Return the names that the code of a job on a page takes from its user."""
    return {
        "EPOCHS": 2,
        "load": lambda path: 0,
        "save": lambda path, epoch: None,
        "train_one_epoch": lambda: None,
        "loss": 0.5,
        "figure": SimpleNamespace(savefig=lambda place: place.write_bytes(b"")),
    }


# --- reading ----------------------------------------------------------------------------------------------------


def check_command(words):
    """Assert that what a command names exists."""
    if words[0] == "jupyter-gq":
        check_arguments(words[1:])
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= set(targets), f"no such target: {words}"
    elif words[:2] == ["python", "-m"] and words[2].startswith(("benchmarks", "docs", "tests")):
        assert (ROOT / words[2].replace(".", "/")).with_suffix(".py").exists(), f"no such module: {words[2]}"
    elif words[:2] == ["docker", "build"]:
        recipe = (ROOT / words[words.index("-f") + 1]).read_text()
        for option, value in itertools.pairwise(words):
            if option == "--build-arg":
                assert re.search(rf"^ARG {value.partition('=')[0]}\b", recipe, re.MULTILINE), value
    elif words[0] == "kubectl" and "jupyter-gq" in words:
        check_arguments(words[words.index("jupyter-gq") + 1 :])


def check_arguments(words):
    """Assert that a subcommand of `jupyter-gq` and its options exist; after "--" come arguments of a script."""
    words = words[: words.index("--")] if "--" in words else words
    options = {word for word in words if word.startswith("-")}
    (subcommands,) = (action.choices for action in build_parser()._actions if action.dest == "command")
    if words[0] in subcommands:
        known = subcommands[words[0]]._option_string_actions
        own = {option for option in options if not re.match(r"--[A-Z]\w+\.", option)}
        assert own <= set(known), f"jupyter-gq {words[0]} has no {own - set(known)}"
    else:
        assert options <= {"--version", "--help"}, f"no such command: jupyter-gq {words[0]}"
        assert options, f"no such command: jupyter-gq {words[0]}"


def test_the_values_of_the_install_page_are_yaml():
    """`gq.yaml` is the file that commands on several pages name."""
    (values,) = (block for block in ALL if block.text.startswith("# gq.yaml\n"))
    assert yaml.safe_load(values.text)["image"]["name"]

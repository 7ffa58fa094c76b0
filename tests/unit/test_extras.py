"""What a command needs that is not installed is told in a sentence, with what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import scaled

_WITHOUT = "import sys; sys.modules.update(dict.fromkeys({missing!r})); "
_RUN = "from jupyter_gq.app import main; sys.exit(main({words!r}))"


def run(words, missing):
    code = _WITHOUT.format(missing=missing) + _RUN.format(words=words)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=scaled(60))


@pytest.mark.parametrize(
    ("words", "missing", "extra"),
    [
        (["demo"], "httpx", "demo"),
        (["demo", "--script"], "httpx", "demo"),
        (["service"], "sqlalchemy", "service"),
        (["agent"], "grpc", "kubernetes"),
        (["copy-database", "a", "b"], "sqlalchemy", "service"),
    ],
)
def test_a_command_names_the_module_and_the_extra(words, missing, extra):
    done = run(words, [missing])
    told = f"jupyter-gq {words[0]}: the Python module {missing} is missing: pip install 'jupyter-gq[{extra}]'\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.parametrize("missing", ["configurable_http_proxy", "jupyterlab", "sklearn"])
def test_the_demo_does_not_begin_without_what_its_hub_and_its_notebook_need(missing):
    done = run(["demo", "--script"], [missing])
    told = f"jupyter-gq demo: the Python module {missing} is missing: pip install 'jupyter-gq[demo]'\n"
    assert (done.returncode, done.stderr.lstrip()) == (1, told)
    assert done.stdout == ""


def test_a_picture_needs_matplotlib_and_says_so_before_it_takes_long():
    team = Path(__file__).parents[2] / "docs/examples"
    words = ["simulate", str(team / "team-jobs.csv"), "--quota", str(team / "team-quota.csv"), "--gpus", "16"]
    done = run([*words, "--plot", "/nowhere/picture.png"], ["matplotlib"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("--plot needs matplotlib. Install it with: pip install matplotlib\n")


def test_others_work_without_what_the_demo_needs():
    done = run(["--version"], ["httpx", "sqlalchemy", "grpc", "kubernetes"])
    assert (done.returncode, done.stdout.startswith("jupyter-gq ")) == (0, True), done.stderr

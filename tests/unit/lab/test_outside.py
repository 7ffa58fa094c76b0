"""A cell that leaves the folder of a job upwards, or uses a repository there, is told if files go along."""

import pytest

from jupyter_gq.lab.bundle.outside import explain_missing
from jupyter_gq.lab.plan.hidden_inputs import find_differences
from jupyter_gq.lab.project.needed import NeededFile

from .test_hidden_inputs import steps

FILE = NeededFile(path="nets.py", bytes=1, why="imported", executable=False)


SAVES = """
import os
def save(path):  # find the best one
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save(net.state_dict(), path)
"""


@pytest.mark.parametrize("source", ["\n" * 200_000, " " * 200_000, "!" * 200_000, "!a\n" * 50_000, "x" * 200_000])
def test_a_large_source_takes_the_time_of_its_length(source):
    """Before, 200,000 empty lines took minutes."""
    assert explain_missing([source]) == ""


def told(*sources, going=(FILE,)):
    found = find_differences(steps(*sources), going, [])
    return [each.index for each in found if each.code == "leaves_folder"]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.chdir('..')",
        "%cd ../..",
        "%%time\nimport os\nos.chdir('..')",
        "from glob import glob\nglob('../data/*.csv')",
        "from pathlib import Path\ndata = Path('..') / 'data'",
        "from pathlib import Path\nroot = Path.cwd().parent",
        "import pathlib\nroot = pathlib.Path('.').resolve().parents[1]",
        "import os, sys\nsys.path.insert(0, os.path.abspath('../'))",
        "import os.path as osp\nosp.join(here, '..')",
        "root = here.resolve().joinpath('..')",
        "import polars as pl\npl.scan_csv('../data/*.csv')",
    ],
)
def test_each_way_up_is_told_beside_its_cell(source):
    assert told("x = 1", source, "print(x)") == [1]
    assert told(source) == [None]
    assert told(source, going=()) == [], "the job runs in the notebook's folder"


@pytest.mark.parametrize(
    "source",
    [
        "!git add -A && git commit -qm results",
        "!cd src && git status",
        "%%bash\npip list\ngit add -A",
        "import subprocess\nsubprocess.run(['git', 'rev-parse', 'HEAD'], check=True)",
        "import os\nos.system('git stash')",
        "import git\ngit.Repo('.').index.add(['a'])",
        "!dvc add data",
    ],
)
def test_each_use_of_a_repository_is_told_beside_its_cell(source):
    assert told("x = 1", source, "print(x)") == [1]
    assert told(source, going=()) == [], "the job runs in the notebook's folder"


@pytest.mark.parametrize(
    "source",
    [
        "# git add\nx = 1",
        "!pip install git+https://example.org/a.git",
        "print('git add')",
        "%%bash\necho a git",
        "%cd git",
        "%%writefile notes.md\ngit add stores files",
        "import os\nos.path.join('git', 'a')",
        "git = connect()\ngit.push()",
    ],
)
def test_a_word_is_no_use_of_a_repository(source):
    assert told(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "!git clone https://example.org/a.git && cd a && pip install .",
        "!git  config --global user.name ann; git -C /srv/a pull",
        "!dvc get https://example.org/a data",
        "import subprocess\nsubprocess.run(['git', 'clone', 'https://example.org/a.git'])",
        "from git import Repo\nRepo.clone_from('https://example.org/a.git', 'a')",
        "import dvc.api\ndvc.api.read('a', repo='https://example.org/a')",
    ],
)
def test_what_needs_no_repository_is_not_told(source):
    assert told(source) == []


def test_another_cell_may_have_imported_the_function():
    assert told("from pathlib import Path\nfrom os.path import join", "Path.cwd().parent", "join('..', 'a')") == [
        1,
        None,
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.chdir('data')",
        "open('../data/a.csv')",
        "from pathlib import Path\nPath('data/a.csv').parent",
        "node.parent",
        "print('...')",
        "%cd data",
        "def up(): os.chdir('..')",
        "first, last = text.split('..')",
        "path.replace('../', '')",
        "print('..')",
        "', '.join('..')",
    ],
)
def test_other_paths_are_not(source):
    assert told(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "open('../data/a.csv')",
        "def read(): return open(f'../{name}')",
        "ROOT = '..'",
        "!cp ../a.csv .",
        "%cd ..",
        "!ls ..",
        "import os\nhere = os.path.dirname(os.getcwd())",
        "import os, sys\nroot = Path.cwd()\nsys.path.append(str(root.parent))",
        "os.path.join(os.pardir, 'data')",
        "root = Path('.').resolve()\nroot.parent / 'data.csv'",
        "!git commit -am results",
        "subprocess.check_output(['git', 'rev-parse', 'HEAD'])",
        "from dotenv import load_dotenv",
        "%%bash\ncat ../a.csv",
        "from pathlib import Path\nroot = Path.cwd().parent",
    ],
)
def test_a_job_whose_cells_may_go_up_is_told_from_others(source):
    assert explain_missing(["x = 1", source]) == "the cells may look for something above it"


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.walk('.')",
        "Path().rglob('*.csv')",
        "Path('.').glob('**/*.parquet')",
        "for folder, folders, names in Path('.').walk(): pass",
        "!find . -name a.csv",
        "!cd data && find . -name a.csv",
        "!grep -r loss .",
        "%%bash\necho looking\nfind .",
        "subprocess.run(['find', '.'])",
        "os.system('find . -name a')",
    ],
)
def test_a_job_whose_cells_search_is_told_from_others(source):
    assert explain_missing([source]) == "the cells may search the folders in it"


@pytest.mark.parametrize(
    "source", ["print('...')", "x[..., 0]", "open('a..b')", "node.parent", "a = [1.]\nb = 1..real", SAVES]
)
def test_a_job_whose_cells_stay_below_misses_nothing(source):
    assert explain_missing([source]) == ""

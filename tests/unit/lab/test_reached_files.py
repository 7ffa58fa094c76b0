"""What the plan says about the data and modules that stay, by the folders that jobs reach."""

import pytest

from jupyter_gq.client.models import FileStore
from jupyter_gq.lab.project.needed import Caps, Needed, StayingFile
from jupyter_gq.lab.project.plan import Project

CAPS = Caps(file=1000, job=4000)


def a_project(folder, staying, reached, secrets=()) -> Project:
    return Project(
        folder=folder,
        named=None,
        needed=Needed(staying={file.path: file for file in staying}, secrets=list(secrets)),
        left_out=frozenset(),
        store=FileStore(missing=[], max_job_bytes=4000, reached=reached),
        caps=CAPS,
        is_live=False,
        needs_live="",
    )


@pytest.mark.parametrize(
    ("path", "size", "reached", "advice"),
    [
        ("{}/lab/big.csv", 10**6, [], ": name it by its path in the notebook's folder, or read it by a URL"),
        ("big.csv", 10**6, [], ": read it by a URL"),
        ("data", None, ["/d"], ": put it into a folder that jobs reach (/d), or read it by a URL"),
        ("big.csv", 10**6, list("abcd"), ": put it into a folder that jobs reach (a, b, c), or read it by a URL"),
        ("../conf.yaml", 10, ["/d"], ": copy it into the notebook's folder, or read it by a URL"),
        ("../big.csv", 10**6, ["/d"], ": put it into a folder that jobs reach (/d), or read it by a URL"),
        ("small.csv", 10, ["/d"], ": put it into a folder that jobs reach (/d), or read it by a URL"),
        (".env", 10, ["/d"], ""),
    ],
)
def test_the_plan_says_how_a_job_gets_data_that_it_does_not_reach(tmp_path, path, size, reached, advice):
    folder, shown = tmp_path / "lab", path.format(tmp_path)
    place = tmp_path / path[3:] if path.startswith("../") else folder / shown
    stays = StayingFile(path=shown, bytes=size, why="it stays", place=place)
    (told,) = a_project(folder, [stays], reached, [".env"]).describe().staying
    assert (told.reached, told.message) == (False, f"{place} is not reachable from the job, and it stays{advice}")

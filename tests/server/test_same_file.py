"""The server tells a page whether two paths of a notebook lead to one file."""

import asyncio

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_gq.lab.results.same_file import FileComparer
from tests.contract.dead_disk import covered
from tests.patience import scaled


@pytest.fixture
def same(on_hub, service, fetch):
    async def ask(one, other):
        status, answer = await fetch("GET", "same-file", one=one, other=other)
        assert status == 200, answer
        return answer["same"]

    return ask


async def test_a_link_to_a_file_or_its_folder_is_the_file_and_a_copy_is_not(same, jp_root_dir):
    (jp_root_dir / "work").mkdir()
    for name in ("work/digits.ipynb", "work/copy.ipynb"):
        (jp_root_dir / name).write_text("{}")
    (jp_root_dir / "link.ipynb").symlink_to("work/digits.ipynb")
    (jp_root_dir / "folder").symlink_to("work")
    (jp_root_dir / "hard.ipynb").hardlink_to(jp_root_dir / "work/digits.ipynb")
    for other in ("link.ipynb", "folder/digits.ipynb", "hard.ipynb", "RTC:link.ipynb", "/link.ipynb"):
        assert await same("work/digits.ipynb", other), other
    assert not await same("work/digits.ipynb", "work/copy.ipynb")
    assert not await same("link.ipynb", "folder/copy.ipynb")


@pytest.mark.parametrize(
    "other", ["gone.ipynb", "dangling.ipynb", "circle.ipynb", "../a.ipynb", "", "a\0b", "x" * 5000]
)
async def test_what_leads_to_no_file_is_not_the_same(same, jp_root_dir, other):
    (jp_root_dir / "a.ipynb").write_text("{}")
    (jp_root_dir / "dangling.ipynb").symlink_to("gone.ipynb")
    (jp_root_dir / "circle.ipynb").symlink_to("circle.ipynb")
    (jp_root_dir.parent / "a.ipynb").unlink(missing_ok=True)
    (jp_root_dir.parent / "a.ipynb").hardlink_to(jp_root_dir / "a.ipynb")
    assert not await same("a.ipynb", other)
    assert not await same(other, other)


async def test_a_disk_that_does_not_answer_keeps_no_thread_from_other_questions(tmp_path):
    comparer = FileComparer(FileContentsManager(root_dir=str(tmp_path)))
    with covered(tmp_path / "silent"):
        questions = (comparer.is_same_file("silent/a.ipynb", "silent/b.ipynb", seconds=0.1) for _ in range(40))
        for answer in await asyncio.gather(*questions, return_exceptions=True):
            assert isinstance(answer, HTTPError)
            assert answer.status_code == 504
        async with asyncio.timeout(scaled(10)):
            assert await asyncio.to_thread(lambda: "free") == "free"
    comparer.close()

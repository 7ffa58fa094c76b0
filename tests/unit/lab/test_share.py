"""What the service says about the share of this server, and what kernels are told of it."""

import json

import pytest

from jupyter_gq.lab.kernels.share import WANTED_SECONDS, ShareNotice, ShareState, read_share
from jupyter_gq.lab.kernels.watch import KernelState
from jupyter_gq.notebook.share_wait import read_notice

NOW = 1_000.0


def a_view(phase="suspended", server="", sentence="The share is coming back.", **suspension):
    """Return the service's view of a notebook, whose suspension has these fields."""
    found = {"since": 900.0, "sentence": "Lent to carol.", "back_within": None, **suspension}
    is_lent = phase in {"suspended", "resuming"}
    return {"server": server, "phase": phase, "sentence": sentence, "suspension": found if is_lent else None}


@pytest.fixture
def notice(tmp_path):
    return ShareNotice(tmp_path / "share", server="", timeout=600)


def told(notice):
    return json.loads(notice._file.read_text())


@pytest.mark.parametrize("phase", ["waiting", "starting", "running", "stopping", "stopped", "of a later version"])
def test_share_is_lent_only_in_the_phases_that_say_so(phase):
    assert read_share(a_view(phase), NOW) == ShareState()


def test_lent_share_is_told_with_for_whom_and_the_returning_one_with_when():
    waits = "A cell waits, so the share comes back."
    assert read_share(a_view(sentence=waits), NOW) == ShareState(lent=True, sentence=waits)
    coming = ShareState(lent=True, sentence="The share is coming back.", ready_at=NOW + 8)
    assert read_share(a_view("resuming", back_within=8.0), NOW) == coming
    assert read_share(a_view("resuming"), NOW).ready_at is None
    waiting = ShareState(lent=True, sentence=waits, ready_at=NOW + 60)
    assert read_share(a_view(sentence=waits, back_within=60.0), NOW) == waiting, "while borrowers make room"


def test_older_service_without_details_is_understood():
    view = {"server": "", "phase": "suspended", "sentence": "Suspended."}
    assert read_share(view, NOW) == ShareState(lent=True, sentence="Suspended.")


def test_notice_is_there_exactly_while_the_share_is_lent(notice):
    assert not notice._file.exists(), "what is unknown is not lent"
    notice.note_notebook(a_view(sentence="Lent to carol."), NOW)
    assert told(notice) == {"sentence": "Lent to carol.", "back_at": None, "timeout": 600, "reachable": True}
    notice.note_notebook(a_view("resuming", back_within=8.0), NOW)
    assert told(notice)["back_at"] == NOW + 8
    notice.note_notebook(a_view("running"), NOW)
    assert not notice._file.exists()


def test_kernels_read_when_the_share_is_back_but_no_time_of_another_clock(notice):
    """A server of an earlier release, which the upgrade has left running, writes the time of the wall clock."""
    notice.note_notebook(a_view("resuming", back_within=8.0), NOW)
    path = str(notice._file)
    assert "(about 8 s)" in read_notice(path).describe(NOW)
    notice._file.write_text(json.dumps({"sentence": "Lent.", "ready_at": 1.8e9, "timeout": 600, "reachable": True}))
    assert read_notice(path).describe(NOW) == "Lent. This cell starts by itself when the GPU is back."


def test_repeated_view_does_not_move_the_expected_time(notice):
    notice.note_notebook(a_view("resuming", back_within=8.0), NOW)
    notice.note_notebook(a_view("resuming", back_within=8.0), NOW + 5)
    assert told(notice)["back_at"] == NOW + 8


def test_other_servers_of_the_user_change_nothing(notice):
    notice.note_notebook(a_view(server="second"), NOW)
    assert not notice._file.exists()
    notice.note_notebook(a_view(), NOW)
    notice.note_notebook(a_view("running", server="second"), NOW)
    assert notice._file.exists()


def test_list_without_this_server_ends_the_notice(notice):
    notice.note_notebooks([a_view("running", server="second"), a_view()], NOW)
    assert notice._file.exists()
    notice.note_notebooks([a_view(server="second")], NOW)
    assert not notice._file.exists()


def test_notice_stays_when_the_service_is_lost_and_says_so(notice):
    notice.note_connection(False)
    assert not notice._file.exists(), "a lost service locks nobody out"
    notice.note_notebook(a_view(), NOW)
    assert told(notice)["reachable"] is False
    notice.note_connection(True)
    assert told(notice)["reachable"] is True


def test_notice_cannot_be_written_once_the_folder_is_gone(notice, tmp_path):
    tmp_path.rmdir()
    notice.note_notebook(a_view(), NOW)
    notice.note_notebook(a_view("running"), NOW)
    assert notice.state == ShareState()


def test_share_is_wanted_for_a_while_after_each_request_of_a_kernel(notice):
    notice.note_notebook(a_view(), NOW)
    assert not notice.is_wanted([], NOW)
    notice.ask(NOW)
    assert notice.is_wanted([], NOW + WANTED_SECONDS)
    assert not notice.is_wanted([], NOW + WANTED_SECONDS + 1)


def test_share_is_wanted_while_a_kernel_of_any_language_serves_a_long_request(notice):
    blocked = KernelState(id="r", busy=True, last_active=0.0, needs_share=True)
    assert not notice.is_wanted([blocked], NOW), "it is not lent"
    notice.note_notebook(a_view(), NOW)
    assert notice.is_wanted([blocked], NOW)
    assert not notice.is_wanted([KernelState(id="r", busy=False, last_active=0.0)], NOW)

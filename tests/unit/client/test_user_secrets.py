"""Secrets of a user are files that only the user can read."""

import stat

import pytest

from jupyter_gq.client.environment.user_secrets import (
    find_secret,
    is_valid_name,
    list_secrets,
    read_secret,
    remove_secret,
    write_secret,
)
from jupyter_gq.domain.errors import UnusableFile


def test_a_secret_is_stored_replaced_and_removed(tmp_path):
    home = str(tmp_path)
    assert (read_secret(home, "HF_TOKEN"), list_secrets(home)) == (None, [])
    write_secret(home, "HF_TOKEN", "one")
    write_secret(home, "HF_TOKEN", "hunter2\n")
    assert (read_secret(home, "HF_TOKEN"), list_secrets(home)) == ("hunter2\n", ["HF_TOKEN"])
    file = find_secret(home, "HF_TOKEN")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    assert [remove_secret(home, "HF_TOKEN"), remove_secret(home, "HF_TOKEN")] == [True, False]


def test_a_secret_that_others_may_read_is_refused(tmp_path):
    write_secret(str(tmp_path), "HF_TOKEN", "hunter2")
    find_secret(str(tmp_path), "HF_TOKEN").chmod(0o644)
    with pytest.raises(UnusableFile, match="other accounts may read it") as refused:
        read_secret(str(tmp_path), "HF_TOKEN")
    assert "hunter2" not in str(refused.value)


def test_a_link_is_refused(tmp_path):
    (tmp_path / "other").write_text("of another user")
    write_secret(str(tmp_path), "A", "x")
    find_secret(str(tmp_path), "HF_TOKEN").symlink_to(tmp_path / "other")
    with pytest.raises(UnusableFile):
        read_secret(str(tmp_path), "HF_TOKEN")


@pytest.mark.parametrize("name", ["", "../x", "a b", "1A", "A=B", "A/B", "A\n", ".A", "A" * 256])
def test_a_name_that_no_variable_has_is_none(name):
    assert not is_valid_name(name)

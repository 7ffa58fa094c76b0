"""The URL of large files: what is refused before anything is asked, and a store that is away when it is opened."""

import re
import sys
from contextlib import closing

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from traitlets import TraitError

from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl
from jupyter_gq.backends.kubernetes.place import open_place
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.domain.errors import AdminError
from tests.patience import scaled, until

FIRST = b"1" * 100_000


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("quite://hidden-word@bucket", r"is of a kind that is not known, 'quite://'\. Set a URL"),
        ("gs://key:hidden-word@bucket", r"of the kind gs://, for which a Python package is missing: .*gcsfs"),
        ("http+unix://hidden-word@x", "is of a kind that is not known"),
    ],
)
def test_an_unusable_url_is_refused_with_a_sentence(url, told, monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(AdminError, match=told) as refusal:
        open_place(url)
    assert "hidden-word" not in str(refusal.value)


def test_a_missing_fsspec_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(AdminError, match=r"the Python package fsspec is missing\. Install jupyter-gq\[bundles\]"):
        open_place("s3://bucket")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("bucket/hidden", r"is no URL\. Set the URL of a store that lasts"),
        ("://hidden", "is no URL"),
        (" s3://hidden", "is no URL"),
        ("s3://AKIA:hid/den@bucket/folder", 'has credentials before "@"'),
        ("s3://hidden@bucket", 'has credentials before "@"'),
        ("https://user:hidden@store/folder", 'has credentials before "@"'),
        ("https://hidden@store/folder", 'has credentials before "@"'),
        ("sftp://user:hi@dden@store/folder", 'has credentials before "@"'),
        ("simplecache::s3://key:hidden@bucket", 'has credentials before "@"'),
        ("abfs://container@account/folder?sig=hidden", r'has options after "\?"'),
        ("memory://hidden", "names the memory of one program, which ends with it"),
        ("simplecache::s3://hidden", 'has "::", and a cache or an archive'),
        ("s3://", "names no bucket and no folder"),
        ("file:///", "names no bucket and no folder"),
        ("file://hidden/folder", "has a relative path; write three slashes"),
        ("local://hidden", "has a relative path"),
        ("file:///mnt/../hidden", r'has "\." or "\.\." as a folder'),
        ("s3://bucket/hid\nden", "ends with a blank or has a character that cannot be printed"),
        ("s3://bucket/hidden ", "ends with a blank"),
        ("s3://bucket/hid\x1b[31mden", "has a character that cannot be printed"),
        ("sftp://hidden:70000/folder", "has a host or a port that cannot be used"),
        ("ftp://hidden:port/folder", "has a host or a port"),
    ],
)
@pytest.mark.parametrize("setting", ["bundle_url", "checkpoint_url"])
def test_a_url_with_secrets_or_without_a_store_is_refused_before_it_is_used(url, told, setting):
    with pytest.raises(TraitError, match=rf"^KubernetesBackend\.{setting} .*{told}") as refusal:
        KubernetesBackend(**{setting: url})
    assert "hid" not in str(refusal.value)
    if told.endswith(('"@"', '"\\?"')):
        receiver = {"bundle_url": r"from a Secret.* bundles\.secretName", "checkpoint_url": "by pod_overrides"}[setting]
        assert re.search(receiver, str(refusal.value))


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/folder",
        "abfs://container@account.dfs.core.windows.net/folder",
        "sftp://user@store/folder",
        "oci://bucket@namespace/folder",
        "file:///mnt/jobs@site/a:b",
        "file:///mnt/my jobs/",
        "sftp://store:2222/folder",
        "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/jobs/folder",
        "",
    ],
)
def test_a_name_before_at_is_no_secret_where_it_is_a_container_or_an_account(url):
    assert KubernetesBackend(bundle_url=url).bundle_url == url


@pytest.mark.parametrize("url", ["webhdfs:///folder", "sftp://:2222/folder"])
def test_a_host_may_come_from_a_variable_of_the_service(url):
    assert KubernetesBackend(bundle_url=url).bundle_url == url


class ConnectsWhenItIsOpened(MemoryFileSystem):
    """A kind of store, such as ftp, that connects when it is opened, and is away at first."""

    protocol, away, cachable = "late", True, False

    def __init__(self, **options):
        if ConnectsWhenItIsOpened.away:
            raise ConnectionRefusedError("nobody listens")
        super().__init__(**options)

    def mkdir(self, path, acl=False, create_parents=True):
        """Take the options in the order of s3fs, where the last one makes a bucket."""
        assert create_parents is False
        super().mkdir(path, create_parents=False)

    def ls(self, path, *, detail):
        return super().ls(path, detail=detail)


def test_a_store_that_is_away_when_it_is_opened_is_opened_later(monkeypatch, caplog):
    fsspec.register_implementation("late", ConnectsWhenItIsOpened, clobber=True)
    with closing(
        ContentsAtUrl(open_place("late://folder"), "a" * 16, timeout=scaled(20), probe_every=0.01)
    ) as contents:
        contents.start()
        assert "late://folder, where the service keeps large files of jobs, cannot be used now" in caplog.text
        assert "ConnectionRefusedError: nobody listens" in contents.trouble
        monkeypatch.setattr(ConnectsWhenItIsOpened, "away", False)
        until(lambda: contents.trouble == "")
        assert contents.get(contents.put([FIRST])) == [FIRST]

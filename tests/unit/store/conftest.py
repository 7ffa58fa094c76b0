"""A disk to fill."""

import pytest

from tests.contract.small_disk import mounted


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 512 KiB."""
    with mounted(tmp_path / "disk") as folder:
        yield folder

"""The disk space of jobs is said in amounts that are there."""

from jupyter_gq.controller.disk_uses import DiskUse, DiskUses
from jupyter_gq.domain.amount import Instant, MiB


def uses(**used):
    found = DiskUses()
    for owner, amount in used.items():
        found.record(f"job-of-{owner}", DiskUse(owner=owner, used=MiB(amount), measured_at=Instant(0)))
    return found


def test_jobs_without_files_are_not_described_as_zero() -> None:
    found = uses(ann=0, bob=2048)
    assert found.describe_user("ann", MiB(512_000)) == ""
    assert found.describe_user("nobody", MiB(512_000)) == ""
    assert found.describe_user("bob", MiB(512_000)) == "2 GiB of at most 500 GiB"
    assert found.describe_users(MiB(512_000)) == "bob 2 GiB; at most 500 GiB each"
    assert uses(ann=0).describe_users(MiB(512_000)) == ""

"""The disk space of jobs is said in amounts that are there."""

from jupyter_gq.controller.disk_uses import DiskUse, DiskUses
from jupyter_gq.controller.user_totals import describe_user, describe_users
from jupyter_gq.domain.amount import Instant, MiB

LIMIT = 500 * 2**30


def uses(**used):
    found = DiskUses()
    for owner, amount in used.items():
        found.record(f"job-of-{owner}", DiskUse(owner=owner, used=MiB(amount), measured_at=Instant(0)))
    return found


def test_jobs_without_files_are_not_described_as_zero() -> None:
    found = uses(ann=0, bob=2048)
    assert describe_user(found.of_users()["ann"], LIMIT) == ""
    assert describe_user(found.of_users()["bob"], LIMIT) == "2 GiB of at most 500 GiB"
    assert describe_users(found.of_users(), LIMIT) == "bob 2 GiB; at most 500 GiB each"
    assert describe_users(uses(ann=0).of_users(), LIMIT) == ""

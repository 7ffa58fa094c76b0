"""At most so many jobs of a group run at the same time; the others are held in what the core sees, by submission."""

from dataclasses import replace

from jupyter_gq.controller.group_limits import hold_beyond_limits
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Hold
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import Record
from tests.builders import a_job


def a_member(name, at, *, group="sweep-1", parallel=2, owner="ann", state=State.PENDING, hold=None):
    workload = replace(a_job(name, "vision"), owner=owner, state=state, submitted_at=Instant(at), hold=hold)
    return Record(workload=workload, detail=WorkloadDetail(group=group, group_parallel=parallel))


def held(*records):
    """Return the ids of the jobs that the core sees held by the limit of their group."""
    views = hold_beyond_limits(records, [record.workload for record in records])
    assert [view.id for view in views] == [record.workload.id for record in records]
    return [view.id for view in views if view.hold is not None and view.hold.sentence]


def test_the_first_ones_by_submission_may_run() -> None:
    assert held(a_member("c", 3), a_member("a", 1), a_member("b", 2)) == ["c"]


def test_running_and_ending_members_take_room() -> None:
    assert held(a_member("a", 1, state=State.RUNNING), a_member("b", 2), a_member("c", 3)) == ["c"]
    stopping = a_member("a", 1, state=State.STOPPING)
    assert held(stopping, a_member("b", 2, state=State.STARTING), a_member("c", 3)) == ["c"]


def test_a_member_that_a_person_holds_gives_its_turn_to_the_next() -> None:
    hold = Hold(by="ann", at=Instant(5))
    assert held(a_member("a", 1, hold=hold), a_member("b", 2), a_member("c", 3), a_member("d", 4)) == ["d"]


def test_groups_are_those_of_one_owner_and_jobs_without_a_limit_are_free() -> None:
    same_name = [a_member("a", 1), a_member("b", 2), a_member("x", 3, owner="bob"), a_member("y", 4, owner="bob")]
    assert held(*same_name) == []
    assert held(*(a_member(name, 1, parallel=0) for name in "abc")) == []
    assert held(*(a_member(name, 1, group="") for name in "abc")) == []


def test_the_sentence_says_how_many_run() -> None:
    records = [a_member("a", 1, parallel=1), a_member("b", 2, parallel=1)]
    _, view = hold_beyond_limits(records, [record.workload for record in records])
    assert view.hold.sentence == "Waiting: its group may run at most 1 at the same time. It takes its turn by itself."

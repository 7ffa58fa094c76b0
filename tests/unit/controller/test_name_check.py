"""Users and groups in the settings that JupyterHub does not know: a warning, with a similar name."""

import pytest

from jupyter_gq.controller.loop.name_check import NameCheck
from jupyter_gq.controller.settings.config import DAY
from jupyter_gq.domain.errors import BackendError

from .world import ANN, BOB, World, story_settings

pytestmark = pytest.mark.asyncio


class Users:
    """The users of a Hub."""

    def __init__(self, **groups: str) -> None:
        self.users = {user: frozenset(names.split()) for user, names in groups.items()}

    async def groups_by_user(self):
        return self.users


class NobodyAnswers:
    async def groups_by_user(self):
        raise BackendError("The Hub could not be asked for its users.")


NAMED = {
    "FixedQuota": {"users": {"ann": "0.5", "crol": "0.5"}, "groups": {"vision": "0.5", "visoin": "0.5"}},
    "TrainingQueues": {
        "queues": {
            "top": {"managers": ["boss"]},
            "vision": {"parent": "top", "users": ["bob"], "groups": ["nlp"], "manager_groups": ["leads"]},
        }
    },
}


async def test_every_unknown_name_is_a_warning_and_is_logged_once(world: World, caplog):
    world.settings.current = story_settings(**NAMED)
    check = NameCheck(world.controller._context, Users(ann="vision", carol="nlp"))
    await check.check()
    await check.check()
    assert check.warnings == (
        "c.FixedQuota.users names the user 'crol', but JupyterHub has no such user. Did you mean 'carol'?",
        "c.FixedQuota.groups names the group 'visoin', but JupyterHub has no user in such a group. "
        "Did you mean 'vision'?",
        "c.TrainingQueues.queues['top']['managers'] names the user 'boss', but JupyterHub has no such user.",
        "c.TrainingQueues.queues['vision']['users'] names the user 'bob', but JupyterHub has no such user.",
        "c.TrainingQueues.queues['vision']['manager_groups'] names the group 'leads', but JupyterHub has no user in "
        "such a group.",
    )
    assert len([record for record in caplog.records if "names:" in record.getMessage()]) == 5


async def test_the_owner_of_jobs_who_is_no_user_of_the_hub_is_named_while_a_job_runs_or_waits(world: World):
    jobs = [world.send(BOB, "nlp") for _ in range(5)]
    world.send(ANN, "vision")
    check = NameCheck(world.controller._context, Users(ann="vision", carol="nlp"))
    await check.check()
    shown = ", ".join(sorted(jobs)[:3])
    assert check.warnings == (
        f"JupyterHub has no user 'bob', but jobs of that name run or wait: {shown} and 2 more. If the account was "
        "deleted, cancel them: a new user of the same name would see these jobs and their outputs.",
    )
    for job in jobs:
        world.controller.jobs.cancel(BOB, job)
    await check.check()
    assert check.warnings == (
        "JupyterHub has no users of these names, but ended jobs of theirs are kept for 30 days: 'bob'. A new user of "
        "such a name would see these jobs and their outputs, so give the name to nobody else before they are deleted.",
    )
    world.clock.forward(31 * DAY)
    assert await world.controller.retention.sweep() == 5
    await check.check()
    assert check.warnings == ()


async def test_without_an_answer_of_the_hub_the_warnings_stay(world: World):
    world.settings.current = story_settings(**NAMED)
    check = NameCheck(world.controller._context, Users(ann="vision"))
    await check.check()
    before = check.warnings
    check._directory = NobodyAnswers()
    await check.check()
    assert check.warnings == before != ()


async def test_nothing_is_unknown_where_nobody_can_be_asked(world: World):
    world.settings.current = story_settings(**NAMED)
    check = NameCheck(world.controller._context, None)
    await check.check()
    assert check.warnings == ()


async def test_the_health_lists_the_warnings(world: World):
    world.settings.warnings = ("config.py, line 3: the key 'a' is written in line 1 too.",)
    assert world.controller.status.check_health().warnings == [world.settings.warnings[0]]

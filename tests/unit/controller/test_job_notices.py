"""Users are told of the end of their jobs: once by each way, also across restarts of the service and of the way."""

import pytest

from jupyter_gq.backends.notifications.notifier import Notice, NoticeRule
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.controller.loop.notices.best_of_sweep import _format_number
from jupyter_gq.controller.loop.notices.job_notices import MOST_LATE, RETRIES, JobNotices
from jupyter_gq.controller.views.mentions import Mentions, ShowNames
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import BackendError

from .world import ADMIN, ANN, BOB, World

pytestmark = pytest.mark.asyncio


class Mailbox:
    """A way that keeps what it sends, and refuses while it is `away`."""

    def __init__(self, name: str = "mail") -> None:
        self.name, self.away = name, False
        self.sent: list[Notice] = []
        self.attempts = 0

    async def send(self, notice: Notice) -> None:
        self.attempts += 1
        if self.away:
            raise BackendError("The mail server is away.")
        self.sent.append(notice)

    @property
    def jobs(self) -> list[str]:
        return [notice.job for notice in self.sent]


def notices(world: World, *ways: Mailbox, phases: str = "done failed", min_seconds: float = 0) -> JobNotices:
    rule = NoticeRule(notifiers=ways, phases=frozenset(phases.split()), min_seconds=Seconds(min_seconds))
    return JobNotices(world.controller._context, rule, world.controller.mentions.render)


async def run_to_its_end(world: World, *, seconds: float = 600.0, owner=ANN, queue: str = "vision") -> str:
    job = world.send(owner, queue)
    await world.step(seconds=seconds)
    world.backend.end(job)
    await world.step(seconds=0)
    return job


async def test_the_owner_is_told_once_what_became_of_the_job(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    job = await run_to_its_end(world)
    await sending.deliver()
    await sending.deliver()
    [notice] = mail.sent
    assert (notice.job, notice.owner, notice.queue, notice.phase, notice.took) == (job, "ann", "vision", "done", 600)
    assert notice.subject == "Job digits is done"


async def test_jobs_that_ended_before_the_first_look_are_not_reported(world: World) -> None:
    await run_to_its_end(world)
    mail = Mailbox()
    await notices(world, mail).deliver()
    assert mail.sent == []


async def test_the_end_at_the_maximum_running_time_is_reported_as_no_cancelled_job_is(world: World) -> None:
    mail, done = Mailbox("a"), Mailbox("b")
    sendings = [notices(world, mail), notices(world, done, phases="done")]
    for sending in sendings:
        await sending.deliver()
    job = world.send(ANN, "vision", max_seconds=90)
    await world.step(3, seconds=60)
    world.controller.jobs.cancel(ANN, world.send(ANN, "vision"))
    await world.step(3)
    for sending in sendings:
        await sending.deliver()
    [notice] = mail.sent
    assert (notice.job, notice.phase, done.sent) == (job, "cancelled", [])
    assert notice.subject == "Job digits reached its maximum running time"
    assert notice.sentence.startswith("Ended: it reached the maximum running time of 90 s that you set for it.")


async def test_only_wanted_ends_and_long_jobs_are_reported(world: World) -> None:
    every, failed, long = Mailbox("a"), Mailbox("b"), Mailbox("c")
    sendings = [
        notices(world, every),
        notices(world, failed, phases="failed"),
        notices(world, long, min_seconds=500),
    ]
    for sending in sendings:
        await sending.deliver()
    short = await run_to_its_end(world, seconds=100)
    lengthy = await run_to_its_end(world, seconds=600)
    for sending in sendings:
        await sending.deliver()
    assert (every.jobs, failed.jobs, long.jobs) == ([short, lengthy], [], [lengthy])


async def test_what_ended_while_no_service_ran_is_reported_by_the_next(world: World) -> None:
    mail = Mailbox()
    await notices(world, mail).deliver()
    job = await run_to_its_end(world)
    await notices(world, mail).deliver()
    await notices(world, mail).deliver()
    assert mail.jobs == [job]


async def test_what_ended_long_ago_is_not_reported(world: World) -> None:
    mail = Mailbox()
    await notices(world, mail).deliver()
    await run_to_its_end(world)
    world.clock.forward(MOST_LATE + 1)
    await notices(world, mail).deliver()
    assert mail.sent == []


async def test_a_way_that_is_away_holds_up_no_other_and_sends_later(world: World) -> None:
    mail, hook = Mailbox("mail"), Mailbox("webhook")
    sending = notices(world, mail, hook)
    await sending.deliver()
    mail.away = True
    job = await run_to_its_end(world)
    await sending.deliver()
    await sending.deliver()
    assert (mail.attempts, hook.jobs) == (1, [job])
    world.clock.forward(RETRIES[0])
    mail.away = False
    await sending.deliver()
    await sending.deliver()
    assert (mail.jobs, hook.jobs) == ([job], [job])


class BrokenWay(Mailbox):
    """A way that fails as no way should."""

    async def send(self, notice: Notice) -> None:
        self.attempts += 1
        raise RuntimeError("a defect")


async def test_a_broken_way_holds_up_no_other(world: World) -> None:
    broken, mail = BrokenWay("webhook"), Mailbox()
    sending = notices(world, broken, mail)
    await sending.deliver()
    job = await run_to_its_end(world)
    await sending.deliver()
    await sending.deliver()
    assert (broken.attempts, mail.jobs) == (1, [job])


async def test_an_unsent_notice_outlives_the_service_with_the_way_that_has_not_sent_it(world: World) -> None:
    mail, hook = Mailbox("mail"), Mailbox("webhook")
    sending = notices(world, mail, hook)
    await sending.deliver()
    mail.away = hook.away = True
    job = await run_to_its_end(world)
    await sending.deliver()
    hook.away = False
    world.clock.forward(RETRIES[0])
    await sending.deliver()
    mail.away = False
    await notices(world, mail, hook).deliver()
    assert (mail.jobs, hook.jobs) == ([job], [job])


async def test_a_notice_is_given_up_after_the_last_attempt(world: World, caplog) -> None:
    caplog.set_level("WARNING")
    mail = Mailbox()
    mail.away = True
    sending = notices(world, mail)
    await sending.deliver()
    job = await run_to_its_end(world)
    for wait in (0, *RETRIES, 10_000):
        world.clock.forward(wait)
        await sending.deliver()
    assert mail.attempts == len(RETRIES) + 1
    assert [record.getMessage() for record in caplog.records if job in record.getMessage()] == [
        f"the notice about job {job} is tried again: The mail server is away.",
        f"the notice about job {job} is given up: The mail server is away.",
    ]
    assert world.store.setting("job_notices")["unsent"] == []


@pytest.mark.parametrize(
    ("show", "sentence"), [(ShowNames.ALL, "Cancelled by root."), (ShowNames.NOBODY, "Cancelled by an administrator.")]
)
async def test_a_notice_names_others_as_the_owner_may_read_them(world: World, show: ShowNames, sentence: str) -> None:
    mail = Mailbox()
    context = world.controller._context
    rule = NoticeRule(notifiers=(mail,), phases=frozenset({"cancelled"}))
    sending = JobNotices(context, rule, Mentions(context, show).render)
    await sending.deliver()
    world.controller.jobs.cancel(ADMIN, world.send(ANN, "vision"))
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == [sentence]


async def send_sweep(world: World, *values: str, owner=ANN, queue: str = "vision") -> list[str]:
    return [world.send(owner, queue, "0.25", group="sweep-1", name=f"digits lr={value}") for value in values]


async def test_a_sweep_is_reported_once_when_all_of_its_jobs_have_ended(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    jobs = await send_sweep(world, "0.1", "0.2", "0.3")
    await world.step(seconds=300)
    world.backend.end(jobs[0])
    await world.step(seconds=0)
    await sending.deliver()
    assert mail.sent == []
    await world.step(seconds=300)
    world.controller.jobs.cancel(ANN, jobs[1])
    world.backend.end(jobs[2], Outcome.FAILED)
    await world.step(3, seconds=0)
    await sending.deliver()
    await sending.deliver()
    [notice] = mail.sent
    assert (notice.group, notice.owner, notice.phase, notice.took) == ("sweep-1", "ann", "failed", 600)
    assert (notice.subject, notice.sentence) == ("Sweep digits has ended", "3 jobs: 1 failed, 1 done, 1 cancelled.")


def brings_back(job: str, **numbers: float | None) -> dict[str, object]:
    entries = [{"name": name, "type": "float", "bytes": 1, "number": number} for name, number in numbers.items()]
    return {job: {"python": "3.12", "variables": entries}}


@pytest.mark.parametrize(
    ("mode", "metric", "best"),
    [
        ("max", "", "Best: loss 12 in 'digits lr=0.2'."),
        ("min", "", "Best: loss 0.01235 in 'digits lr=0.1'."),
        ("max", "accuracy", "Best: accuracy 0.9 in 'digits lr=0.1'."),
        ("max", "recall", ""),
    ],
)
async def test_the_notice_of_a_sweep_names_the_best_of_all_of_its_jobs(world: World, mode, metric, best) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    group = {"group": "sweep-1", "group_mode": mode, "group_metric": metric}
    first, second, third = (
        world.send(ANN, "vision", "0.25", name=f"digits lr={lr}", **group) for lr in ("0.1", "0.2", "0.3")
    )
    world.bundles.listed |= brings_back(first, loss=0.0123456, accuracy=0.9)
    world.bundles.listed |= brings_back(second, loss=12.0, accuracy=0.5)
    world.bundles.listed |= brings_back(third, model=None)
    await world.step(3, seconds=100)
    for job in (first, second, third):
        world.backend.end(job)
    await world.step(3, seconds=0)
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == [f"3 jobs: 3 done. {best}".rstrip()]


async def test_a_sweep_of_which_a_list_of_results_cannot_be_read_has_no_best_job(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    jobs = await send_sweep(world, "0.1", "0.2")
    world.bundles.listed |= brings_back(jobs[0], loss=0.5) | {jobs[1]: {"variables": "odd"}}
    await world.step(seconds=300)
    for job in jobs:
        world.backend.end(job)
    await world.step(3, seconds=0)
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == ["2 jobs: 2 done."]


async def test_a_sweep_with_a_list_of_results_that_is_too_long_has_no_best_job(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    jobs = await send_sweep(world, "0.1", "0.2")
    world.bundles.listed |= brings_back(jobs[0], loss=0.5)
    world.bundles.listed |= brings_back(jobs[1], loss=0.5, **{f"{number:0255}": 1.0 for number in range(999)})
    await world.step(seconds=300)
    for job in jobs:
        world.backend.end(job)
    await world.step(3, seconds=0)
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == ["2 jobs: 2 done."]


def list_calls(monkeypatch: pytest.MonkeyPatch, owner: object, method: str) -> list[object]:
    """Return a list that gets the arguments of each further call of a method."""
    calls: list[object] = []
    called = getattr(owner, method)

    def note(*args: object, **more: object) -> object:
        calls.append((args, more))
        return called(*args, **more)

    monkeypatch.setattr(owner, method, note)
    return calls


async def test_results_are_read_only_for_a_notice_that_is_sent(world: World, monkeypatch) -> None:
    mail, short, late = Mailbox("mail"), Mailbox("short"), Mailbox("late")
    sendings = [notices(world, mail), notices(world, short, min_seconds=5000), notices(world, late)]
    for sending in sendings:
        await sending.deliver()
    [job] = await send_sweep(world, "0.1")
    world.bundles.listed |= brings_back(job, loss=0.5)
    await world.step(seconds=300)
    world.backend.end(job)
    await world.step(3, seconds=0)
    asked = list_calls(monkeypatch, world.bundles, "results")
    await sendings[0].deliver()
    assert [notice.sentence for notice in mail.sent] == ["1 job: 1 done. Best: loss 0.5 in 'digits lr=0.1'."]
    await sendings[1].deliver()
    world.clock.forward(MOST_LATE + 1)
    await sendings[2].deliver()
    assert (len(asked), short.sent, late.sent) == (1, [], [])


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (12345.678, "12350"),
        (-0.0, "0"),
        (1.0625, "1.063"),
        (0.0000123456, "0.00001235"),
        (1.2e-7, "1.2e-7"),
        (-3.0, "-3"),
        (1e17, "100000000000000000"),
        (1e21, "1e+21"),
    ],
)
async def test_the_number_of_the_best_job_is_written_as_in_jupyterlab(number, shown) -> None:
    assert _format_number(number) == shown


async def test_a_sweep_whose_jobs_end_together_is_looked_up_once(world: World, monkeypatch) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    jobs = await send_sweep(world, *map(str, range(8)))
    await world.step(seconds=300)
    for job in jobs:
        world.controller.jobs.cancel(ANN, job)
        if world.job(job).phase == "cancelling":
            world.backend.end(job)
    await world.step(3, seconds=0)
    asked = list_calls(monkeypatch, world.store, "list")
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == ["8 jobs: 4 done, 4 cancelled."]
    assert len(asked) == 2, "a page, and the empty one after it"


async def test_a_sweep_is_reported_if_the_end_of_one_of_its_jobs_is_wanted(world: World) -> None:
    failed, cancelled = Mailbox("a"), Mailbox("b")
    sendings = [notices(world, failed, phases="failed"), notices(world, cancelled, phases="cancelled")]
    for sending in sendings:
        await sending.deliver()
    jobs = await send_sweep(world, "0.1", "0.2")
    await world.step(seconds=300)
    world.controller.jobs.cancel(ANN, jobs[0])
    await world.step(3, seconds=0)
    for sending in sendings:
        await sending.deliver()
    world.backend.end(jobs[1])
    await world.step(seconds=0)
    for sending in sendings:
        await sending.deliver()
    assert (len(failed.sent), len(cancelled.sent)) == (0, 1)


async def test_a_sweep_has_failed_if_one_of_its_jobs_reached_its_maximum_running_time(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail, phases="failed")
    await sending.deliver()
    world.send(ANN, "vision", "0.25", group="sweep-1", max_seconds=90)
    lasts = world.send(ANN, "vision", "0.25", group="sweep-1")
    await world.step(3, seconds=60)
    await sending.deliver()
    world.backend.end(lasts)
    await world.step(3)
    await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == ["2 jobs: 1 done, 1 cancelled."]


async def test_a_sweep_of_another_owner_with_the_same_name_is_another_one(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    [ended] = await send_sweep(world, "0.1")
    await send_sweep(world, "0.1", "0.2", owner=BOB, queue="nlp")
    await world.step(seconds=300)
    world.backend.end(ended)
    await world.step(seconds=0)
    await sending.deliver()
    assert [(notice.owner, notice.sentence) for notice in mail.sent] == [("ann", "1 job: 1 done.")]


async def test_a_sweep_that_grew_is_reported_once_more(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    for value in ("0.1", "0.2"):
        [job] = await send_sweep(world, value)
        await world.step(seconds=300)
        world.backend.end(job)
        await world.step(seconds=0)
        await sending.deliver()
    assert [notice.sentence for notice in mail.sent] == ["1 job: 1 done.", "2 jobs: 2 done."]


async def test_each_owner_gets_the_own_job(world: World) -> None:
    mail = Mailbox()
    sending = notices(world, mail)
    await sending.deliver()
    jobs = [await run_to_its_end(world), await run_to_its_end(world, owner=BOB, queue="nlp")]
    await sending.deliver()
    assert [(notice.job, notice.owner) for notice in mail.sent] == [(jobs[0], "ann"), (jobs[1], "bob")]

"""A cell that two pages send makes a second job only if its user is told of the first."""

import asyncio

import pytest

from tests.server.service import a_job
from tests.server.test_send import a_request
from tests.server.test_send_sweep import a_sweep


async def test_a_cell_that_two_pages_send_at_once_makes_a_second_job_only_if_the_user_is_told(on_hub, service, fetch):
    service.answers["GET", "jobs/job-0"] = (200, a_job(id="job-0", phase="waiting"))

    async def send(key, known):
        return await fetch("POST", "send", body=a_request(key=key, known_jobs=known))

    answers = await asyncio.gather(send("first", []), send("second", []))
    assert sorted(status for status, _ in answers) == [201, 409]
    problem = next(answer for status, answer in answers if status == 409)
    assert problem["code"] == "already_sent"
    assert "its job is waiting. Send again to have both" in problem["message"]
    assert problem["other_jobs"] == ["job-0"]
    assert (await send("third", ["job-0"]))[0] == 201, "its user knew of the job"
    assert (await send("fourth", None))[0] == 201, "it asks for no user"
    assert len(service.keys) == 3


async def test_a_user_is_asked_about_each_job_of_another_page_once(on_hub, service, fetch):
    for number in range(3):
        service.answers["GET", f"jobs/job-{number}"] = (200, a_job(id=f"job-{number}", phase="waiting"))
    known = []

    async def send(key):
        status, answer = await fetch("POST", "send", body=a_request(key=key, known_jobs=known))
        if status == 409:
            known.extend(answer["other_jobs"])
        return status

    other = {"key": "theirs", "known_jobs": []}
    assert (await fetch("POST", "send", body=a_request(**other)))[0] == 201
    assert await send("ours") == 409
    newer = {"key": "newer", "known_jobs": ["job-0"]}
    assert (await fetch("POST", "send", body=a_request(**newer)))[0] == 201
    assert await send("ours") == 409
    assert known == ["job-0", "job-1"]
    assert await send("ours") == 201


@pytest.mark.parametrize("answer", [(200, "done"), (404, "gone")])
async def test_a_cell_whose_job_from_another_page_has_ended_is_sent_without_a_question(on_hub, service, fetch, answer):
    status, phase = answer
    service.answers["GET", "jobs/job-0"] = (status, a_job(id="job-0", phase=phase) if status == 200 else {})
    for key in ("first", "second"):
        assert (await fetch("POST", "send", body=a_request(key=key, known_jobs=[])))[0] == 201


async def test_a_request_that_was_refused_does_not_keep_another_page_from_sending(on_hub, fetch):
    wrong = {"cell_id": "broken", "source": "x = 1\nfor\n", "seconds": 1}
    assert (await fetch("POST", "send", body=a_request(key="first", known_jobs=[], prefix=[wrong])))[0] == 422
    assert (await fetch("POST", "send", body=a_request(key="second", known_jobs=[])))[0] == 201


@pytest.mark.parametrize("between", ["refused", "knows"])
async def test_the_job_of_a_page_counts_whatever_another_page_sent_since(on_hub, service, fetch, between):
    """The second page knows the job of the first; its own request is refused, or is for one of its cells only."""
    service.answers["GET", "jobs/job-0"] = (200, a_job(id="job-0", phase="running"))

    async def send(key, *targets, **changes):
        return (
            await fetch("POST", "send", body=a_request(key=key, targets=list(targets), **{"prefix": [], **changes}))
        )[0]

    assert await send("first", "load", "train", known_jobs=[]) == 201
    if between == "refused":
        wrong = {"cell_id": "broken", "source": "x = 1\nfor\n", "seconds": 1}
        assert await send("second", "train", known_jobs=["job-0"], prefix=[wrong]) == 422
    else:
        assert await send("second", "load", known_jobs=["job-0"]) == 201
    assert await send("third", "train", known_jobs=[]) == 409


def the_sweep(*phases):
    """Return the list of the jobs of the sweep, which the service gives newest first, and a job that is not its own."""
    jobs = [a_job(id=f"job-{number}", phase=phase) for number, phase in enumerate(phases)]
    return (200, {"jobs": [a_job(id="other", phase="running"), *reversed(jobs)]})


async def test_a_sweep_of_another_page_is_told_as_long_as_one_of_its_jobs_goes_on(on_hub, service, fetch):
    assert (await fetch("POST", "sweep", body=a_sweep(key="sweep", known_jobs=[])))[0] == 201

    async def send(known):
        return await fetch("POST", "send", body=a_request(key="other", known_jobs=known))

    service.answers["GET", "jobs"] = the_sweep("running", "done")
    status, problem = await send([])
    assert (status, problem["code"], problem["other_jobs"]) == (409, "already_sent", ["job-0"])
    assert "and 1 job of that sweep has not ended" in problem["message"]
    assert (await send(["job-0"]))[0] == 201, "its user knew of the job that is left"


async def test_a_page_that_knows_one_job_of_a_sweep_is_asked_about_the_others_as_one_group(on_hub, service, fetch):
    grid = {"lr": ["1", "2", "3", "4"]}
    assert (await fetch("POST", "sweep", body={**a_sweep(key="sweep", known_jobs=[]), "grid": grid}))[0] == 201
    service.answers["GET", "jobs"] = the_sweep("waiting", "running", "done", "waiting")

    async def send(known):
        return await fetch("POST", "send", body=a_request(key="other", known_jobs=known))

    status, problem = await send(["job-1"])
    assert (status, problem["other_jobs"]) == (409, ["job-3", "job-0"])
    assert "and 2 other jobs of that sweep have not ended. Send again to have" in problem["message"]
    assert (await send(["job-1", *problem["other_jobs"]]))[0] == 201


async def test_the_service_is_asked_once_about_all_jobs_of_a_sweep(on_hub, service, fetch):
    grid = {"lr": [str(number) for number in range(1, 21)]}
    assert (await fetch("POST", "sweep", body={**a_sweep(key="sweep", known_jobs=[]), "grid": grid}))[0] == 201
    service.answers["GET", "jobs"] = the_sweep(*["done"] * 20)
    service.asked.clear()
    assert (await fetch("POST", "send", body=a_request(key="other", known_jobs=[])))[0] == 201
    asked = [path for method, path in service.asked if method == "GET" and path.startswith("jobs")]
    assert len(asked) == 1
    assert "group=sweep-" in asked[0]
    assert "limit=500" in asked[0]


async def test_a_sweep_is_asked_about_again_if_the_service_could_not_be_asked(on_hub, service, fetch):
    assert (await fetch("POST", "sweep", body=a_sweep(key="sweep", known_jobs=[])))[0] == 201

    async def send():
        return (await fetch("POST", "send", body=a_request(key="other", known_jobs=[])))[0]

    service.answers["GET", "jobs"] = (503, {"code": "busy", "message": "Try again."})
    assert await send() == 503
    service.answers["GET", "jobs"] = the_sweep("done", "waiting")
    assert await send() == 409
    service.answers["GET", "jobs"] = the_sweep("done")  # the other job was deleted
    assert await send() == 201

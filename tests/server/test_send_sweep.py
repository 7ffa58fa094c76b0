"""Cells are sent as a sweep: one job for each combination of values, as one group, or nothing."""

from tests.server.service import a_job
from tests.server.test_send import a_notebook, a_request, code

GRID = {"lr": ["0.1", "0.01"], "depth": ["2"]}


def a_sweep(**fields):
    notebook = a_notebook(code("setup", "depth = 1  # layers"), code("train", "lr = 0.5\nloss = train(lr, depth)"))
    prefix = [{"cell_id": "setup", "source": "depth = 1  # layers", "seconds": 1.0}]
    metric = {"group_parallel": 1, "group_metric": "loss", "group_mode": "min", "returns": ["loss"]}
    return a_request(notebook=notebook, prefix=prefix, grid=GRID, **metric, **fields)


def sources(body):
    return [cell["source"] for cell in body["bundle"]["notebook"]["cells"]]


async def test_each_point_is_a_job_of_one_group_with_its_literals(on_hub, service, fetch):
    status, sent = await fetch("POST", "sweep", body=a_sweep())
    assert status == 201
    assert [each["values"] for each in sent["jobs"]] == [{"lr": lr, "depth": "2"} for lr in GRID["lr"]]
    assert [each["job"] for each in sent["jobs"]] == ["job-0", "job-1"]
    assert [sources(body) for body in service.bodies] == [
        ["depth = 2  # layers", f"lr = {lr}\nloss = train(lr, depth)"] for lr in GRID["lr"]
    ]
    assert [body["name"] for body in service.bodies] == ["Digits lr=0.1, depth=2", "Digits lr=0.01, depth=2"]
    for body in service.bodies:
        assert body["group"] == sent["group"]
        assert (body["group_parallel"], body["group_metric"], body["group_mode"]) == (1, "loss", "min")
        assert body["bundle"]["manifest"]["returns"] == ["loss"]
    assert {name: sent[name] for name in ("name", "metric", "mode")} == {
        "name": "Digits",
        "metric": "loss",
        "mode": "min",
    }


async def test_sending_it_twice_makes_the_jobs_once(on_hub, service, fetch):
    assert await fetch("POST", "sweep", body=a_sweep()) == await fetch("POST", "sweep", body=a_sweep())


async def test_values_that_cannot_be_taken_send_nothing(on_hub, service, fetch):
    for grid, words in [
        ({"lr": ["fast"]}, "lr: 'fast' is not a number"),
        ({"rate": ["1"]}, "rate cannot vary"),
        ({}, "make 0 jobs"),
    ]:
        status, problem = await fetch("POST", "sweep", body={**a_sweep(), "grid": grid})
        assert (status, problem["field"]) == (422, "grid")
        assert words in problem["message"]
    assert service.bodies == []


async def test_a_refusal_in_the_middle_cancels_what_was_sent(on_hub, service, fetch):
    answers = iter([(201, a_job(id="job-0")), (429, {"code": "limit_reached", "message": "You have 100 jobs."})])
    service.answers["POST", "jobs/cancel"] = (202, {"jobs": [a_job(id="job-0")], "refused": []})
    usual = service.answer
    service.answers["POST", "jobs"] = (0, {})  # `answer` below decides

    def answer(method, path, body):
        return next(answers) if (method, path) == ("POST", "jobs") else usual(method, path, body)

    service.answer = answer
    status, problem = await fetch("POST", "sweep", body=a_sweep())
    assert (status, problem["message"]) == (429, "You have 100 jobs.")
    assert service.bodies[-1] == {"jobs": ["job-0"]}


def refuse_once(service, at):
    """Let the service refuse the job number `at` that it is sent, and cancel the jobs it is told to."""
    usual, submit = service.answer, service.submit
    count = iter(range(100))

    def answer(method, path, body):
        if (method, path) != ("POST", "jobs/cancel"):
            return usual(method, path, body)
        for job in service.keys.values():
            if job["id"] in body["jobs"]:
                job["phase"] = "cancelled"
        return 202, {"jobs": [], "refused": []}

    def submit_or_refuse(key, body):
        if next(count) == at:
            return 429, {"code": "limit_reached", "message": "You have 100 jobs."}
        return submit(key, body)

    service.answer, service.submit = answer, submit_or_refuse


async def test_after_a_refusal_the_same_sweep_is_sent_anew_and_a_shorter_one_with_its_own_values(
    on_hub, service, fetch
):
    refuse_once(service, at=1)
    assert (await fetch("POST", "sweep", body=a_sweep()))[0] == 429
    _, again = await fetch("POST", "sweep", body=a_sweep())
    assert [each["job"] for each in again["jobs"]] == ["job-1", "job-2"]  # job-0 was cancelled
    _, other = await fetch("POST", "sweep", body={**a_sweep(), "grid": {"lr": ["0.2"], "depth": ["2"]}})
    assert other["jobs"] == [{"job": "job-3", "values": {"lr": "0.2", "depth": "2"}}]
    assert sources(service.bodies[-1])[-1] == "lr = 0.2\nloss = train(lr, depth)"
    assert other["group"] != again["group"]


async def test_the_plan_lists_what_can_vary(on_hub, service, fetch):
    _, plan = await fetch("POST", "check", body=a_sweep())
    assert plan["assignments"] == [
        {"name": "depth", "value": "1", "line": 1, "title": "depth = 1  # layers"},
        {"name": "lr", "value": "0.5", "line": 1, "title": "lr = 0.5"},
    ]

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
        ({"lr": ["fast"]}, "lr: fast is not a number"),
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


async def test_the_plan_lists_what_can_vary(on_hub, service, fetch):
    _, plan = await fetch("POST", "check", body=a_sweep())
    assert plan["assignments"] == [
        {"name": "depth", "value": "1", "line": 1, "title": "depth = 1  # layers"},
        {"name": "lr", "value": "0.5", "line": 1, "title": "lr = 0.5"},
    ]

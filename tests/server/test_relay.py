"""Requests of the browser are relayed to the service in the user's name, and its answers are returned unchanged."""

import json
import subprocess
import sys

import pytest

from tests.server.service import LacksTheScope, ServiceIsDown, a_job

READS = [
    (("me",), "me"),
    (("queues",), "queues"),
    (("notebooks",), "notebooks"),
    (("jobs",), "jobs"),
    (("jobs", "job-7f3"), "jobs/job-7f3"),
    (("jobs", "job-7f3", "outputs"), "jobs/job-7f3/outputs"),
    (("jobs", "job-7f3", "notebook"), "jobs/job-7f3/notebook"),
]


@pytest.mark.parametrize(("path", "asked"), READS)
async def test_request_is_relayed_to_the_service(on_hub, service, fetch, path, asked):
    status, answer = await fetch("GET", *path)
    assert status == 200
    expected = service.answers["GET", asked][1]
    assert {key: answer[key] for key in expected if not isinstance(expected[key], list)} == {
        key: value for key, value in expected.items() if not isinstance(value, list)
    }


async def test_status_names_user_and_server(on_hub, fetch):
    status, answer = await fetch("GET", "status")
    assert status == 200
    assert answer == {
        "available": True,
        "message": "Connected to the GPU scheduler as ann.",
        "user": "ann",
        "server": "gpu",
        "hub": True,
    }


async def test_page_of_jobs_is_requested_with_the_browser_s_parameters(on_hub, service, fetch):
    assert (await fetch("GET", "jobs", limit=5, before="job-9"))[0] == 200
    assert ("GET", "jobs?limit=5&before=job-9") in service.asked


@pytest.mark.parametrize("number", ["many", "-1", "\u0663", "9" * 5000], ids=["word", "sign", "other digit", "huge"])
async def test_malformed_number_is_refused_by_this_server(on_hub, service, fetch, number):
    status, problem = await fetch("GET", "jobs", limit=number)
    assert (status, problem["field"]) == (422, "limit")
    assert service.asked == []


@pytest.mark.parametrize(("method", "path"), [("GET", "jobs/%ff"), ("TRACE", "jobs"), ("BREW", "jobs/a")])
async def test_a_request_that_cannot_be_read_is_refused_with_a_problem(
    on_hub, jp_base_url, http_server_client, jp_auth_header, method, path
):
    url = f"{jp_base_url}jupyter-gq/{path}"
    response = await http_server_client.fetch(
        url, method=method, headers=jp_auth_header, raise_error=False, allow_nonstandard_methods=True
    )
    assert 400 <= response.code < 500
    assert json.loads(response.body).keys() == {"code", "message", "field"}


async def test_gpu_use_of_a_job_is_relayed(on_hub, service, fetch):
    point = {"at": 5.0, "utilisation": 40.0, "highest": 50, "memory_mib": None}
    usage = {"run": 1, "since": 5.0, "seconds": 15.0, "points": [point], "memory_limit_mib": None, "sentence": "Used."}
    service.answers["GET", "jobs/job-7f3/usage"] = 200, usage
    assert await fetch("GET", "jobs", "job-7f3", "usage") == (200, usage)


async def test_the_log_is_plain_text(on_hub, jp_fetch):
    response = await jp_fetch("jupyter-gq", "jobs", "job-7f3", "log")
    assert response.headers["Content-Type"].startswith("text/plain")
    assert response.body == b"runner: started\n"


async def test_a_change_is_relayed_and_a_wrong_one_is_refused_by_this_server(on_hub, service, fetch):
    service.answers["PATCH", "jobs/job-7f3"] = 200, a_job(held_since=5.0)
    status, answer = await fetch("PATCH", "jobs", "job-7f3", body={"held": True})
    assert (status, answer["held_since"]) == (200, 5.0)
    assert service.bodies[-1]["held"] is True
    status, problem = await fetch("PATCH", "jobs", "job-7f3", body={"hold": True})
    assert (status, problem["field"]) == (422, "hold")
    assert len(service.asked) == 1


async def test_several_jobs_are_cancelled_by_one_request(on_hub, service, fetch):
    service.answers["POST", "jobs/cancel"] = 202, {"jobs": [], "refused": []}
    assert await fetch("POST", "cancel", body={"jobs": ["a", "b"]}) == (200, {"jobs": [], "refused": []})
    assert service.bodies[-1] == {"jobs": ["a", "b"]}
    assert (await fetch("POST", "cancel", body={"jobs": []}))[0] == 422


async def test_cancel_answers_with_202(on_hub, fetch):
    status, job = await fetch("DELETE", "jobs", "job-7f3")
    assert (status, job["phase"]) == (202, "cancelling")


async def test_the_deletion_of_an_ended_job_is_passed_on(on_hub, service, fetch):
    status, job = await fetch("DELETE", "jobs", "job-7f3", "record")
    assert (status, job["phase"]) == (202, "done")
    assert service.asked[-1] == ("DELETE", "jobs/job-7f3/record")


async def test_keep_names_this_server(on_hub, service, fetch):
    assert (await fetch("POST", "keep", body={}))[0] == 200
    assert ("POST", "servers/gpu/keep") in service.asked


async def test_a_refusal_keeps_its_status_code_message_and_field(on_hub, service, fetch):
    problem = {"code": "invalid_amount", "message": "1.5 is not a valid amount of GPUs.", "field": "gpus"}
    service.answers["POST", "jobs/preview"] = (422, problem)
    assert await fetch("POST", "preview", body={"queue": "vision", "gpus": "1.5"}) == (422, problem)


async def test_a_job_of_somebody_else_is_not_there(on_hub, fetch):
    status, problem = await fetch("GET", "jobs", "job-other")
    assert (status, problem["code"]) == (404, "not_found")


async def test_an_id_cannot_name_another_route(on_hub, service, jp_fetch):
    response = await jp_fetch("jupyter-gq/jobs/..%2Fme", raise_error=False)
    assert response.code == 404
    assert ("GET", "me") not in service.asked


async def test_body_that_is_not_json_is_refused_with_a_problem(on_hub, jp_fetch):
    response = await jp_fetch("jupyter-gq", "preview", method="POST", body="{", raise_error=False)
    assert response.code == 400
    assert b'"invalid_json"' in response.body


@pytest.mark.parametrize("kind_of_service", [ServiceIsDown])
async def test_status_says_that_the_service_is_down(on_hub, fetch):
    status, problem = await fetch("GET", "me")
    assert (status, problem["code"]) == (503, "service_unavailable")
    assert problem["message"].startswith("The GPU scheduler does not answer. It may be restarting: try again")
    assert not any(internal in problem["message"] for internal in ("http", "Errno")), "these are in the log"
    status, answer = await fetch("GET", "status")
    assert (status, answer["available"], answer["hub"]) == (200, False, True)
    assert "cannot be reached" in answer["message"]


@pytest.mark.parametrize("kind_of_service", [LacksTheScope])
async def test_status_says_that_the_token_lacks_the_scope(on_hub, fetch):
    status, problem = await fetch("POST", "preview", body={"queue": "vision", "gpus": "1"})
    assert (status, problem["code"]) == (403, "missing_scope")
    assert "lacks" in (await fetch("GET", "status"))[1]["message"]


async def test_every_route_says_what_to_do_without_a_hub(monkeypatch, fetch):
    monkeypatch.delenv("JUPYTER_GQ_URL", raising=False)
    status, answer = await fetch("GET", "status")
    assert status == 200
    assert not answer["hub"]
    assert "jupyter-gq demo" in answer["message"]
    for method, path in [("GET", "me"), ("POST", "send"), ("POST", "check"), ("GET", "kernels/k/history")]:
        status, problem = await fetch(method, *path.split("/"), body={} if method == "POST" else None)
        assert (status, problem["code"]) == (503, "service_unavailable")


async def test_requests_are_no_activity(on_hub, jp_serverapp, fetch):
    """An open page sends requests on its own and must not keep a GPU."""
    before = jp_serverapp.web_app.last_activity()
    for path, _ in READS:
        await fetch("GET", *path)
    assert jp_serverapp.web_app.last_activity() == before


async def test_the_token_is_never_shown(on_hub, service, extension):
    assert service.token not in repr(extension.hub_environment)
    assert a_job()["owner"] == extension.hub_environment.user


def test_start_of_a_server_imports_no_models():
    """The user's server must not start later because of us; the models come once it answers."""
    code = "import sys, jupyter_gq.lab.extension; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

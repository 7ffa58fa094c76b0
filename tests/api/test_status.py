"""Every kind of failure has its own status, one form, and tells no secrets."""

import errno
import gzip
import json
import logging

import pytest

from jupyter_gq.domain import errors

from .fakes import JOB_TOKEN, Raises
from .world import World

pytestmark = pytest.mark.asyncio

DOMAIN = [
    (errors.InvalidAmount("1.5", "it is no fraction", "use 1"), 422, "invalid_amount", "gpus"),
    (errors.UnknownQueue("visoin", ("vision",)), 422, "unknown_queue", "queue"),
    (errors.NeverFits("No node has 9 GPUs."), 422, "never_fits", "gpus"),
    (errors.NeverFits("No node has 9 cores.", errors.Resource.CPU), 422, "never_fits", "cpus"),
    (errors.NeverFits("No node has an H100.", errors.Resource.MODEL), 422, "never_fits", "gpu_model"),
    (errors.InvalidAmount("x", "it is none", "use 1", errors.Resource.MEMORY), 422, "invalid_amount", "memory"),
    (errors.NotAMember("ann", "nlp", ("vision",)), 403, "not_a_member", "queue"),
    (errors.PriorityTooHigh(requested=9, highest=0, queue="nlp"), 403, "priority_too_high", "priority"),
    (errors.QuotaExceeded(requested="1", quota="0.5", used="0", holders=()), 403, "quota_exceeded", "gpus"),
    (errors.NotFound("There is no job job-9."), 404, "not_found", None),
    (errors.Conflict("The job has ended."), 409, "conflict", None),
    (errors.KeyReused("Another request has this key."), 422, "key_reused", "Idempotency-Key"),
    (errors.TooLarge("The bundle has 30 MiB."), 413, "too_large", None),
    (errors.StatementCancelled("'jobs' at db", "statement timeout"), 503, "statement_cancelled", None),
    (errors.StorageFull("The disk is full; nothing was kept."), 507, "storage_full", None),
    (errors.StoreUnavailable("'jobs' at db", "connection refused"), 503, "store_unavailable", None),
    (errors.ContentsUnavailable("s3://b cannot be used now."), 503, "contents_unavailable", None),
    (errors.Superseded(1, 2), 503, "superseded", None),
    (errors.UserError("That is not possible."), 422, "invalid_request", None),
]


@pytest.mark.parametrize(("error", "status", "code", "field"), DOMAIN, ids=lambda value: str(value)[:30])
async def test_domain_errors_have_their_status_and_sentence(serve, error, status, code, field):
    served = await serve(Raises(error))
    assert await served.problem("GET", "api/v1/jobs/job-9") == (
        status,
        {"code": code, "message": str(error), "field": field},
    )


async def test_an_unforeseen_error_is_500_with_an_id_that_stands_in_the_log(serve, caplog):
    served = await serve(Raises(ZeroDivisionError("secret detail")))
    with caplog.at_level(logging.ERROR, logger="jupyter_gq.api.endpoint"):
        status, problem = await served.problem("GET", "api/v1/me")
    assert (status, problem["code"]) == (500, "internal")
    assert "secret detail" not in problem["message"]
    incident = problem["message"].rstrip(".").rpartition(" ")[2]
    assert f"id={incident}" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), MemoryError(), OSError(errno.EMFILE, "Too many open files", "/x")],
    ids=lambda error: type(error).__name__,
)
async def test_a_machine_without_free_threads_files_or_memory_is_503_and_in_the_log(serve, caplog, error):
    served = await serve(Raises(error))
    with caplog.at_level(logging.ERROR, logger="jupyter_gq.api.endpoint"):
        status, problem = await served.problem("GET", "api/v1/me")
    assert (status, problem["code"]) == (503, "exhausted")
    assert "Try again in a minute" in problem["message"]
    assert type(error).__name__ in caplog.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("jobs?limt=5", "There is no query parameter 'limt' at jobs; use limit, before, owner, group."),
        ("jobs?limit=5&x=1", "'x'"),
        ("jobs?x", "'x'"),
        ("jobs?=1", "''"),
        ("me?user=bob", "'user' at me; leave it out: there are none here"),
        ("jobs/job-1/outputs?afer=3", "use after"),
        ("health?verbose=1", "'verbose'"),
        ("jobs?a%00b=1", "'a\\x00b'"),
        ("jobs?%E2%80%AEx=1", "'\\u202ex'"),
    ],
)
async def test_an_unknown_query_parameter_is_refused_and_named(serve, path, words):
    served = await serve(Raises(errors.NotFound("reached")))
    status, problem = await served.problem("GET", f"api/v1/{path}")
    assert (status, problem["code"]) == (422, "invalid_request")
    assert words in problem["message"]


@pytest.mark.parametrize("token", [None, "unknown", "ann-nothing", "ann-reads", "ann", "prometheus", JOB_TOKEN])
async def test_the_reasons_of_the_health_are_for_admins(serve, tmp_path, token):
    world = World(tmp_path)
    world.settings.error = "config.py, line 3: KeyError: 'the-client-secret'. Mend that line."
    world.settings.warnings = ("config.py, line 9: the key 'ann' is written in line 7 too.",)
    served = await serve(world.controller)
    told = json.loads((await served.ask("GET", "api/v1/health", token=token)).body)
    assert {name: value for name, value in told.items() if value} == {"status": "degraded", "code": "config_refused"}
    told = json.loads((await served.ask("GET", "api/v1/health", token="root")).body)
    assert (told["policy"], told["warnings"]) == (world.settings.error, list(world.settings.warnings))
    assert told["version"]
    world.close()


async def test_tokens_are_never_logged(serve, caplog):
    served = await serve(Raises(ZeroDivisionError()))
    with caplog.at_level(logging.DEBUG):
        await served.ask("GET", "api/v1/me")
        await served.ask("GET", "api/v1/me?token=in-the-query", token="wrong-token")
        await served.ask("POST", "api/v1/jobs/job-1/heartbeat", token=JOB_TOKEN, body={"run": 1})
    for secret in ("token ann", "wrong-token", JOB_TOKEN, "in-the-query"):
        assert secret not in caplog.text


@pytest.mark.parametrize("path", ["", "api", "api/v1/", "api/v1/nothing", "api/v1/jobs/a/b/c", "api/v1/jobs/"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_a_json_404(serve, method, path):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem(method, path, token=None)
    assert (status, problem["code"]) == (404, "not_found")


async def test_head_answers_as_get_without_a_body(serve):
    served = await serve(Raises(errors.NotFound("gone")))
    assert (await served.ask("HEAD", "api/v1/nothing")).code == 404
    response = await served.ask("HEAD", "api/v1/openapi.json", token=None)
    assert (response.code, response.body) == (200, b"")
    assert (await served.ask("HEAD", "api/v1/me", token=None)).code == 401


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "jobs", "GET, POST"),
        ("GET", "jobs/preview", "POST"),
        ("PUT", "jobs/job-1", "DELETE, GET, PATCH"),
        ("POST", "me", "GET"),
        ("OPTIONS", "tickets", "POST"),
    ],
)
async def test_a_wrong_method_is_405_and_names_the_right_ones(serve, method, path, allowed):
    served = await serve(Raises(AssertionError()))
    body = {} if method in {"PUT", "PATCH", "POST"} else None
    response = await served.ask(method, f"api/v1/{path}", body=body)
    assert (response.code, response.headers["Allow"]) == (405, allowed)
    assert json.loads(response.body)["code"] == "method_not_allowed"


BAD_JSON = [b"", b"{", b"nul", b"\xff\xfe{}", b'{"queue": NaN}', b'{"queue": "\\ud800"}', b"[" * 100_000]


@pytest.mark.parametrize("body", BAD_JSON, ids=lambda body: repr(body[:20]))
async def test_what_is_not_json_is_400(serve, body):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem("POST", "api/v1/jobs/preview", body=body)
    assert (status, problem["code"]) == (400, "bad_json")


INVALID = [
    ([], None, "an object was expected, not an empty list"),
    ([1, 2], None, "an object was expected, not a list of 2"),
    ({"gpus": 1}, "queue", "queue: it is required, and missing"),
    ({"queue": 7, "gpus": 1}, "queue", "queue: text was expected, not 7"),
    ({"queue": "q", "gpus": None}, "gpus", "gpus: text or a number was expected, not null"),
    ({"queue": "q", "gpus": True}, "gpus", "gpus: text or a number was expected, not true"),
    ({"queue": "q", "gpus": "1" * 41}, "gpus", "gpus: at most 40 characters are possible, not"),
    ({"queue": "q", "gpus": 1, "tasks": "2"}, "tasks", 'tasks: a whole number was expected, not "2"'),
    ({"queue": "q", "gpus": 1, "tasks": 1.5}, "tasks", "tasks: "),
    ({"queue": "q", "gpus": 1, "tasks": 0}, "tasks", "tasks: 1 or more was expected, not 0"),
    ({"queue": "q", "gpus": 1, "prority": 1}, "prority", "prority: there is no such field here"),
    ({"queue": "q", "gpus": 1, "name": "n" * 101}, "name", "name: "),
]


@pytest.mark.parametrize(("body", "field", "words"), INVALID, ids=lambda value: str(value)[:40])
async def test_a_wrong_value_is_422_with_its_field_in_words(serve, body, field, words):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem("POST", "api/v1/jobs/preview", body=body)
    assert (status, problem["code"], problem["field"]) == (422, "invalid_request", field)
    assert words in problem["message"]


async def test_a_field_deep_inside_is_named_by_its_path(serve, bundle):
    served = await serve(Raises(AssertionError()))
    bundle["manifest"]["targets"][0]["cell_id"] = 5
    body = {"queue": "q", "gpus": "1", "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", body=body)
    assert (status, problem["field"]) == (422, "bundle.manifest.targets.0.cell_id")


async def test_a_list_that_must_not_be_empty_is_named_with_what_it_needs(serve, bundle):
    served = await serve(Raises(AssertionError()))
    bundle["manifest"]["targets"] = []
    body = {"queue": "q", "gpus": "1", "bundle": bundle}
    _, problem = await served.problem("POST", "api/v1/jobs", body=body)
    assert problem["message"] == "bundle.manifest.targets: 1 or more entries are needed, not an empty list."


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=ten", "limit=-1", "limit=1e1", "limit=", "limit=9" + "9" * 40]
)
async def test_a_wrong_query_parameter_is_422(serve, query):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem("GET", f"api/v1/jobs?{query}")
    assert (status, problem["field"]) == (422, "limit")


async def test_a_body_over_the_limit_is_413_also_when_its_length_is_not_told(serve):
    served = await serve(Raises(AssertionError()), bundle_limit=lambda: 1000)
    large = b'{"name": "' + b"x" * 3_000_000 + b'"}'
    assert (await served.problem("POST", "api/v1/jobs", body=large))[0] == 413
    assert (await served.problem("POST", "api/v1/jobs/preview", body=large))[0] == 413
    bomb = gzip.compress(b"x" * 50_000_000)
    assert (await served.problem("POST", "api/v1/jobs", body=bomb, Content_Encoding="gzip"))[0] == 413


async def test_a_gzipped_body_is_unpacked(serve):
    served = await serve(Raises(errors.NeverFits("too many")))
    body = gzip.compress(json.dumps({"queue": "q", "gpus": 9}).encode())
    status, problem = await served.problem("POST", "api/v1/jobs/preview", body=body, Content_Encoding="gzip")
    assert (status, problem["code"]) == (422, "never_fits")


async def test_answers_are_not_stored_nor_framed_nor_guessed(serve):
    served = await serve(Raises(AssertionError()))
    for response in (
        await served.ask("GET", "api/v1/openapi.json", token=None),
        await served.ask("GET", "api/v1/nothing", token=None),
    ):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "Server" not in response.headers
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("key", ["", "k" * 201, "caf\xe9"])
async def test_an_unusable_idempotency_key_is_refused(serve, bundle, key):
    served = await serve(Raises(AssertionError()))
    body = {"queue": "q", "gpus": "1", "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", body=body, Idempotency_Key=key)
    assert (status, problem["field"]) == (422, "Idempotency-Key")

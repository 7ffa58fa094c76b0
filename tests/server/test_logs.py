"""The log of a job is measured, searched and downloaded through the Jupyter server, which never holds a whole one."""

import json
import logging

import pytest
from tornado.httpclient import HTTPClientError
from tornado.iostream import StreamClosedError

SIZE = {"run": 1, "tasks": [{"task": 0, "start": 5, "end": 30}], "complete": False, "note": "The first 5 bytes ..."}
LOG = bytes(range(30))
CONTENT = ("jobs/job-7f3/log/content", "")


async def test_the_size_and_the_lines_are_relayed(on_hub, service, fetch):
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, SIZE)
    found = {"task": 1, "lines": [{"line": 3, "text": "loss: nan"}], "next": 70, "next_line": 4}
    service.answers["GET", "jobs/job-7f3/log/lines"] = (200, found)
    assert await fetch("GET", "jobs/job-7f3/log/size") == (200, SIZE)
    query = {"contains": "loss: ", "task": "1", "start": "40", "line": "2"}
    assert await fetch("GET", "jobs/job-7f3/log/lines", **query) == (200, found)
    assert "contains=loss%3A+" in service.asked[-1][1], "a space at the end counts"
    assert service.asked[-1][1].endswith("task=1&start=40&line=2")
    status, problem = await fetch("GET", "jobs/job-7f3/log/lines", contains="x", start="-1")
    assert (status, problem["field"]) == (422, "start")


async def test_a_log_is_downloaded_as_far_as_it_is_kept(on_hub, service, jp_fetch):
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, SIZE)
    service.contents[CONTENT] = LOG + b"printed meanwhile"
    answer = await jp_fetch("jupyter-gq", "jobs", "job-7f3", "log", "file")
    assert answer.body == LOG[5:]
    assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''job-7f3.log"
    assert answer.headers["Content-Type"] == "application/octet-stream"


async def test_the_logs_of_several_tasks_are_one_file_and_one_can_be_chosen(on_hub, service, jp_fetch):
    tasks = [{"task": task, "start": 0, "end": 3} for task in (0, 1)]
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, {**SIZE, "tasks": tasks})
    service.contents[CONTENT] = b"one"
    place = ("jupyter-gq", "jobs", "job-7f3", "log", "file")
    assert (await jp_fetch(*place)).body == b"== task 0 ==\none== task 1 ==\none"
    answer = await jp_fetch(*place, params={"task": "1"})
    assert (answer.body, answer.headers["Content-Disposition"][-18:]) == (b"one", "job-7f3-task-1.log")
    answer = await jp_fetch(*place, params={"task": "x"}, raise_error=False)
    assert (answer.code, json.loads(answer.body)["field"]) == (422, "task")


async def test_a_log_that_is_refused_is_a_problem_and_no_download(on_hub, service, jp_fetch):
    refused = {"code": "not_found", "message": "There is no such job.", "field": None}
    service.answers["GET", "jobs/job-7f3/log/size"] = (404, refused)
    answer = await jp_fetch("jupyter-gq", "jobs", "job-7f3", "log", "file", raise_error=False)
    assert (answer.code, json.loads(answer.body)) == (404, refused)
    assert "Content-Disposition" not in answer.headers


async def test_the_service_says_that_there_is_no_such_task(on_hub, service, jp_fetch):
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, SIZE)
    refused = {"code": "not_found", "message": "The job has no task 99: it has only task 0.", "field": None}
    service.answers["GET", "jobs/job-7f3/log/content"] = (404, refused)
    place = ("jupyter-gq", "jobs", "job-7f3", "log", "file")
    answer = await jp_fetch(*place, params={"task": "99"}, raise_error=False)
    assert (answer.code, json.loads(answer.body)) == (404, refused)
    answer = await jp_fetch(*place, params={"task": "9" * 500}, raise_error=False)
    assert (answer.code, len(json.loads(answer.body)["message"]) < 200) == (422, True)


async def test_a_download_that_the_user_cancels_ends_and_is_no_error(
    on_hub, service, leave_early, jp_serverapp, extension, until
):
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, {**SIZE, "tasks": [{"task": 0, "start": 0, "end": 10**5}]})
    service.contents[CONTENT] = bytes(10**5)
    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    for logger in (extension.log, jp_serverapp.log, logging.getLogger("tornado")):
        logger.addHandler(handler)
    for logger in (extension.log, jp_serverapp.log):
        logger.setLevel(logging.DEBUG)  # the end of a request without an error is logged so
    assert await leave_early("GET", "jobs", "job-7f3", "log", "file") == 200
    await until(
        lambda: any("GET" in record.getMessage() and "log/file" in record.getMessage() for record in logged),
        lambda: (logged, len(service.asked)),
    )
    assert [record.getMessage() for record in logged if record.levelno >= logging.WARNING] == []
    assert len(service.asked) < 10**4, "it did not fetch the whole log"


async def test_a_part_of_a_log_is_never_taken_for_the_whole(on_hub, service, jp_fetch):
    service.answers["GET", "jobs/job-7f3/log/size"] = (200, SIZE)

    class LostAfterTheFirstPart(dict):
        def get(self, key, default=None):
            return self.pop(key, default)

    service.contents = LostAfterTheFirstPart({CONTENT: LOG})
    with pytest.raises((StreamClosedError, HTTPClientError)):
        await jp_fetch("jupyter-gq", "jobs", "job-7f3", "log", "file")

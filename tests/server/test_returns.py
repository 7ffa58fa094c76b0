"""The dialog is proposed what later cells need, a job is sent with the names, and its files are downloads."""

import json

import pytest
from tornado.httpclient import HTTPClientError
from tornado.iostream import StreamClosedError

CELLS = ["model = train()\nlog = []", "print(model)", "log = 1"]
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3"}},
    "cells": [
        {"cell_type": "code", "id": f"c{number}", "metadata": {}, "source": source, "outputs": []}
        for number, source in enumerate(CELLS)
    ],
}
CELL = {"notebook_path": "a.ipynb", "notebook": NOTEBOOK, "targets": ["c0"]}
JOB = {**CELL, "key": "k", "queue": "vision", "gpus": "1"}


async def test_what_later_cells_need_is_proposed(on_hub, fetch):
    status, plan = await fetch("POST", "check", body=CELL)
    assert (status, plan["makes"], plan["returns"]) == (200, ["model", "log"], ["model"])


async def test_what_the_cell_changes_in_place_is_proposed_as_well_but_no_module(on_hub, fetch):
    cells = [
        "import matplotlib.pyplot as pl\nmodel.fit(x)\ntable['new'] = 1\nlog.append(1)\npl.rcParams['a'] = plt.b = 1\n"
        "rows.drop(2, inplace=True)\nold.drop(2, inplace=False)\na, b = 1, 2\ndel a, (b, c)",
        "model.predict(y), table, pl, plt, x, rows, old, a, b, c",
    ]
    listed = [{**NOTEBOOK["cells"][place], "source": source} for place, source in enumerate(cells)]
    _, plan = await fetch("POST", "check", body={**CELL, "notebook": {**NOTEBOOK, "cells": listed}})
    assert (plan["makes"], plan["returns"]) == ([], ["model", "rows", "table"])


async def test_a_model_that_is_changed_through_another_object_is_proposed_but_nothing_that_is_deleted(on_hub, fetch):
    cells = [
        "opt = SGD(net.parameters())\n_scores = old = other = []",
        "for x in loader:\n    loss = net(x).mean()\n    loss.backward()\n    opt.step()\n_scores.append(loss)\n"
        "old.append(1)\ndel old\nother.append(1)\nif done:\n    del other",
        "net(y), loader, _scores, old, other",
    ]
    listed = [{**NOTEBOOK["cells"][place], "source": source} for place, source in enumerate(cells)]
    prefix = [{"cell_id": "c0", "source": cells[0]}]
    sent = {**CELL, "targets": ["c1"], "prefix": prefix, "notebook": {**NOTEBOOK, "cells": listed}}
    _, plan = await fetch("POST", "check", body=sent)
    assert plan["returns"] == ["_scores", "net", "other"]


async def test_the_names_go_into_the_manifest(on_hub, service, fetch):
    assert (await fetch("POST", "send", body={**JOB, "returns": ["model"]}))[0] == 201
    assert service.bodies[-1]["bundle"]["manifest"]["returns"] == ["model"]
    assert "returns" not in service.bodies[-1]


async def test_what_is_no_name_is_refused_at_its_field(on_hub, service, fetch):
    status, problem = await fetch("POST", "send", body={**JOB, "returns": ["model.weights"]})
    assert (status, problem["field"]) == (422, "returns")
    assert "'model.weights' is not the name of a variable" in problem["message"]


async def test_more_names_than_a_job_brings_back_are_refused_at_their_field(on_hub, service, fetch):
    status, problem = await fetch("POST", "send", body={**JOB, "returns": [f"v{n}" for n in range(101)]})
    assert (status, problem["field"]) == (422, "returns")
    assert problem["message"].startswith("A job brings back at most 100 variables, and 101 are named.")


async def test_a_file_is_downloaded_whole_and_never_shown(on_hub, service, jp_fetch):
    content = bytes(range(25))
    service.contents["jobs/job-7f3/results/content", "files/plots/ü.html"] = content
    answer = await jp_fetch("jupyter-gq", "jobs", "job-7f3", "file", params={"path": "plots/ü.html"})
    assert answer.body == content
    assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''%C3%BC.html"
    assert answer.headers["Content-Type"] == "application/octet-stream"


async def test_an_empty_file_is_a_download_too(on_hub, service, jp_fetch):
    service.contents["jobs/job-7f3/results/content", "files/empty.html"] = b""
    answer = await jp_fetch("jupyter-gq", "jobs", "job-7f3", "file", params={"path": "empty.html"})
    assert answer.body == b""
    assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''empty.html"
    assert answer.headers["Content-Type"] == "application/octet-stream"


async def test_a_file_that_the_service_refuses_is_a_problem_and_no_download(on_hub, service, jp_fetch):
    refused = {"code": "not_found", "message": "There is no such job.", "field": None}
    service.answers["GET", "jobs/job-7f3/results/content"] = (404, refused)
    place = ("jupyter-gq", "jobs", "job-7f3", "file")
    answer = await jp_fetch(*place, params={"path": "a.png"}, raise_error=False)
    assert (answer.code, json.loads(answer.body)) == (404, refused)
    assert "Content-Disposition" not in answer.headers


class LostAfterTheFirstPart(dict):
    """Contents that are there for one request only."""

    def get(self, key, default=None):
        return self.pop(key, default)


async def test_a_part_of_a_file_is_never_taken_for_the_whole(on_hub, service, jp_fetch):
    service.contents = LostAfterTheFirstPart({("jobs/job-7f3/results/content", "files/a.png"): bytes(25)})
    with pytest.raises((StreamClosedError, HTTPClientError)):
        await jp_fetch("jupyter-gq", "jobs", "job-7f3", "file", params={"path": "a.png"})

"""The product's own client and the product's own controller, over HTTP: each route does what it says."""

import asyncio
import csv
import io
import json
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from jupyter_gq.app import main
from jupyter_gq.client import models
from jupyter_gq.client.connection.http import ServiceClient, ServiceError, ServiceUnavailable
from jupyter_gq.client.outputs.delivery import Delivery
from jupyter_gq.client.state import decision_document, read_state
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.scheduling.cycle import run_cycle

from .fakes import Raises
from .world import piece, submission

pytestmark = pytest.mark.asyncio


def refuses(status: int, code: str, field: str | None = None):
    """The service refuses in the block, with exactly that."""
    return pytest.raises(
        ServiceError, check=lambda e: (e.status, e.problem.code, e.problem.field) == (status, code, field)
    )


async def test_a_job_from_sending_to_its_result(people, world, bundle):
    ann = people["ann"]
    preview = await ann.preview(models.JobRequest(queue="vision", gpus="0.5"))
    assert preview.starts_now
    job, created = await ann.submit(submission(bundle), key="k1")
    assert created
    assert (job.owner, job.queue, job.gpus, job.phase, job.name) == ("ann", "vision", "0.5", "waiting", "digits")
    assert world.bundles.kept[job.id]["notebook"] == bundle["notebook"]
    await world.steps()
    assert (await ann.job(job.id)).phase == "running"

    delivery = Delivery(ann.url, job.id, world.job_token(job.id))
    assert await delivery.send([]) == 0
    assert await delivery.send([piece(1), piece(2)]) == 2
    assert await delivery.send([piece(2), piece(3)]) == 3
    assert await delivery.send([piece(9)]) == 3
    await delivery.heartbeat(1, 0.5, "epoch 5 of 10", 5.0)
    delivery.close()
    page = await ann.outputs(job.id, after=1)
    assert [event["seq"] for event in page.events] == [2, 3]
    assert not page.finished
    assert (await ann.job(job.id)).progress == models.Progress(fraction=0.5, text="epoch 5 of 10")

    with refuses(404, "not_found"):
        await ann.notebook(job.id)
    world.bundles.executed[job.id] = {"cells": []}
    world.bundles.logs[job.id] = "caf\u00e9\n"
    assert await ann.notebook(job.id) == {"cells": []}
    assert await ann.log(job.id) == "caf\u00e9\n"
    world.machine.end(job.id)
    await world.steps()
    assert (await ann.job(job.id)).phase == "done"
    assert (await ann.outputs(job.id, after=3)).finished
    with refuses(409, "conflict"):
        await ann.cancel(job.id)


async def test_the_same_key_makes_one_job_also_when_sent_at_once(people, bundle):
    ann = people["ann"]
    answers = await asyncio.gather(*(ann.submit(submission(bundle), key="again") for _ in range(5)))
    assert len({job.id for job, _ in answers}) == 1
    assert sorted(created for _, created in answers) == [False, False, False, False, True]
    (listed,) = (await ann.jobs()).jobs
    detail = (await ann.job(listed.id)).model_dump()
    assert detail.pop("targets")
    assert detail.pop("prefix") is not None
    assert (detail.pop("left_out_cells"), detail.pop("carries_variables")) == (None, False)
    assert listed.model_dump() == detail, "a list leaves only out what is about the cells"
    with pytest.raises(ServiceError, match=f"made the job 'digits' .{listed.id}.") as refused:
        await ann.submit(submission(bundle, name="another"), key="again")
    assert (refused.value.status, refused.value.problem.field) == (422, "Idempotency-Key")
    other, created = await people["root"].submit(submission(bundle), key="again")
    assert created
    assert other.id != answers[0][0].id


async def test_what_is_not_yours_is_not_there(people, world, bundle):
    job, _ = await people["ann"].submit(submission(bundle))
    bob = people["bob"]
    for attempt in (
        bob.job(job.id),
        bob.cancel(job.id),
        bob.outputs(job.id),
        bob.notebook(job.id),
        bob.log(job.id),
        bob.job("job-never"),
    ):
        with refuses(404, "not_found"):
            await attempt
    assert (await bob.jobs()).jobs == []
    with refuses(403, "missing_scope"):
        await bob.jobs(owner="ann")
    assert [seen.id for seen in (await people["root"].jobs(owner="*")).jobs] == [job.id]
    assert [seen.id for seen in (await people["root"].jobs(owner="ann")).jobs] == [job.id]
    assert (await people["root"].jobs()).jobs == []
    assert (await people["root"].cancel(job.id)).phase in {"cancelled", "cancelling"}


async def test_tickets_of_others_are_not_there_either(people, world):
    ticket = await people["ann"].open_ticket(models.TicketRequest(gpus="0.25"))
    bob = people["bob"]
    report = models.ProcessReport(pid=4321, started=1.0)
    for attempt in (bob.ticket(ticket.id), bob.close_ticket(ticket.id), bob.attach(ticket.id, report)):
        with refuses(404, "not_found"):
            await attempt
    assert (await bob.notebooks()).notebooks == []


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"queue": "visoin"}, 422, "unknown_queue", "queue"),
        ({"queue": "nlp"}, 403, "not_a_member", "queue"),
        ({"gpus": "0.1234"}, 422, "invalid_amount", "gpus"),
        ({"gpus": "abc"}, 422, "invalid_amount", "gpus"),
        ({"gpus": 1.5}, 422, "invalid_amount", "gpus"),
        ({"gpus": -1}, 422, "invalid_amount", "gpus"),
        ({"gpus": "1e999999999"}, 422, "invalid_amount", "gpus"),
        ({"gpus": "1e5000"}, 422, "invalid_amount", "gpus"),
        ({"gpus": "1e-5000"}, 422, "invalid_amount", "gpus"),
        ({"gpus": 10**18}, 422, "invalid_amount", "gpus"),
        ({"gpus": 10**30}, 400, "bad_json", None),
        ({"gpus": 9}, 422, "never_fits", "gpus"),
    ],
    ids=str,
)
async def test_a_job_that_cannot_be_is_refused_with_its_reason(people, bundle, changes, status, code, field):
    with refuses(status, code, field):
        await people["ann"].submit(submission(bundle, **changes))
    assert (await people["ann"].jobs()).jobs == []


async def test_a_full_disk_is_507_and_keeps_nothing(serve, world, bundle, people):
    world.bundles._full = True
    with refuses(507, "storage_full"):
        await people["ann"].submit(submission(bundle))
    assert (await people["ann"].jobs()).jobs == []


async def test_a_notebook_from_its_ticket_to_its_end(people, world):
    ann = people["ann"]
    ticket = await ann.open_ticket(models.TicketRequest(server="", gpus="0.5"))
    assert (await ann.open_ticket(models.TicketRequest(server="", gpus="0.5"))).id == ticket.id
    await world.steps()
    admitted = await ann.ticket(ticket.id)
    assert admitted.phase == "starting"
    assert admitted.environment["JUPYTER_GQ_GPUS"] == "0.5"
    with refuses(409, "conflict"):
        await ann.attach(ticket.id, models.ProcessReport(pid=77, started=1.0))
    world.servers.processes.add(77)
    await ann.attach(ticket.id, models.ProcessReport(pid=77, started=1.0))
    await world.steps()
    (notebook,) = (await ann.notebooks()).notebooks
    assert (notebook.server, notebook.gpus, notebook.phase) == ("", "0.5", "running")
    kernel = models.KernelActivity(id="k", busy=True, last_active=world.clock.now())
    await ann.report_activity("", models.ActivityReport(at=world.clock.now(), kernels=[kernel]))
    with refuses(409, "conflict"):
        await ann.keep("")
    with refuses(403, "quota_exceeded", "gpus"):
        await ann.open_ticket(models.TicketRequest(server="second", gpus="0.25"))
    with refuses(404, "not_found"):
        await ann.keep("second")
    await ann.close_ticket(ticket.id)
    await world.steps()
    assert [seen.phase for seen in (await ann.notebooks()).notebooks] == ["stopping"]
    world.servers.processes.discard(77)
    await world.steps()
    assert (await ann.notebooks()).notebooks == []


async def test_totals(people, world):
    me = await people["ann"].me()
    assert (me.user, me.quota, me.left, me.admin) == ("ann", "0.5", "0.5", False)
    assert [queue.name for queue in me.queues if queue.member] == ["vision"]
    assert {queue.name for queue in (await people["ann"].queues()).queues} == {"vision"}
    assert {queue.name for queue in (await people["root"].queues()).queues} >= {"vision", "nlp"}
    assert len((await people["ann"].devices()).devices) == 2
    assert (await people["ann-reads"].health()).status == "ok"


async def test_the_state_that_an_admin_gets_replays_to_the_same_decision(people, world, bundle):
    await people["ann"].submit(submission(bundle))
    file = read_state(await people["root"].state())
    again = run_cycle(file.state.snapshot, file.state.policy, file.state.at)
    assert decision_document(again) == file.decision
    assert [entry["do"] for entry in file.decision["instructions"]] == ["Admit"]
    with refuses(403, "missing_scope"):
        await people["ann"].state()


async def test_the_command_writes_the_state_and_replays_it(people, world, bundle, tmp_path, monkeypatch, capsys):
    await people["ann"].submit(submission(bundle))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "root")
    file = str(tmp_path / "state.json")
    assert await asyncio.to_thread(main, ["snapshot", "--url", people["root"].url, "-o", file]) == 0
    assert "1 node, " in capsys.readouterr().out
    assert main(["replay", file]) == 0
    assert "The same decision (1 instruction, 0 explanations)" in capsys.readouterr().out
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "ann")
    assert await asyncio.to_thread(main, ["snapshot", "--url", people["root"].url]) == 3
    assert "custom:gq:admin" in capsys.readouterr().err


async def test_an_admin_takes_a_device_out_of_service_and_puts_it_back(people, world):
    root = people["root"]
    begun = await root.drain("1")
    assert (begun.by, begun.index, begun.leaving, begun.staying) == ("root", 1, [], [])
    assert (await root.drains()).drains == [begun]
    with refuses(409, "conflict"):
        await root.drain(begun.name)
    shown = {each.id: each for each in (await root.devices()).devices}[begun.name]
    assert (shown.healthy, shown.draining, shown.note) == (False, True, begun.note)
    hidden = {each.id: each for each in (await people["ann"].devices()).devices}[begun.name]
    assert (hidden.draining, hidden.note) == (True, "")
    assert (await root.undrain("1")).sentence == "GPU 1 of box takes new work again."
    with refuses(409, "conflict"):
        await root.undrain("1")
    with refuses(404, "not_found"):
        await root.drain("GPU-9")
    with refuses(422, "invalid_request", "name"):
        await root._send("POST", "drains", models.DrainRequest.model_construct(name=""))
    for ask in (people["ann"].drains, lambda: people["ann"].drain("1"), lambda: people["ann"].undrain("1")):
        with refuses(403, "missing_scope"):
            await ask()


async def test_admins_read_the_audit_log_by_filters_and_in_pages(people, bundle):
    root, ann = people["root"], people["ann"]
    job, _ = await ann.submit(submission(bundle))
    await ann.cancel(job.id)
    cancelled, sent = (await root.audit(object=job.id)).entries
    assert (sent.action, sent.actor, cancelled.action) == ("job.submit", "ann", "job.cancel")
    first = await root.audit(object=job.id, limit=1)
    assert (first.entries, first.next) == ([cancelled], cancelled.id)
    assert (await root.audit(object=job.id, before=first.next)).entries == [sent]
    assert (await root.audit(actor="ann", action="job.cancel")).entries == [cancelled]
    assert (await root.audit(until=int(sent.at))).entries == []
    with refuses(422, "invalid_request", "action"):
        await root.audit(action="job.steal")
    with refuses(403, "missing_scope"):
        await ann.audit()


async def test_the_command_audit_prints_and_exports(people, bundle, monkeypatch, capsys):
    """Runs the commands of docs/how-to/read-the-audit-log.md."""
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "root")
    monkeypatch.setenv("JUPYTER_GQ_URL", people["root"].url)
    monkeypatch.setattr("jupyter_gq.planning.audit._PAGE", 1)
    job, _ = await people["ann"].submit(submission(bundle))
    await people["root"].cancel(job.id)

    async def say(*arguments):
        assert await asyncio.to_thread(main, ["audit", "--since", "1970-01-01", "--object", job.id, *arguments]) == 0
        return capsys.readouterr().out

    cancelled, sent = (await say()).splitlines()
    assert f"  ann  job.submit  {job.id}  name=" in sent
    assert f"  root  job.cancel  {job.id} of ann  name=" in cancelled
    rows = list(csv.DictReader(io.StringIO(await say("--format", "csv"))))
    assert [(row["actor"], row["action"], row["owner"]) for row in rows] == [
        ("root", "job.cancel", "ann"),
        ("ann", "job.submit", "ann"),
    ]
    lines = [json.loads(line) for line in (await say("--format", "json")).splitlines()]
    assert [{**line, "details": json.dumps(line["details"])} for line in lines] == rows
    assert lines[0]["details"]["as_admin"] is True
    assert await say("--until", "1970-01-02") == ""
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "ann")
    assert await asyncio.to_thread(main, ["audit"]) == 3
    assert "custom:gq:admin" in capsys.readouterr().err


async def test_the_commands_drain_list_and_undrain(people, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "root")
    monkeypatch.setenv("JUPYTER_GQ_URL", people["root"].url)

    async def say(*arguments):
        code = await asyncio.to_thread(main, [*arguments])
        told = capsys.readouterr()
        return code, told.out + told.err

    assert await say("drain") == (0, "Nothing is out of service.\n")
    nothing = "GPU 1 of box takes nothing new. Nothing of jupyter-gq runs there.\n"
    assert await say("drain", "1") == (0, nothing)
    code, listed = await say("drain")
    assert (code, listed.startswith("GPU-sim-box-1 (drained by root since "), listed.endswith(nothing)) == (
        0,
        True,
        True,
    )
    code, refused = await say("drain", "nowhere")
    assert code == 3
    assert "There is no node and no GPU named 'nowhere'. Nodes: box. GPUs: 0 (GPU-sim-box-0), 1 (" in refused
    assert await say("undrain", "1") == (0, "GPU 1 of box takes new work again.\n")
    code, refused = await say("undrain", "1")
    assert code == 3
    assert "GPU 1 of box is not drained." in refused
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "ann")
    code, refused = await say("drain", "1")
    assert code == 3
    assert "custom:gq:admin" in refused


async def test_metrics_show_sums_and_no_names_of_users(people, world, bundle):
    await people["ann"].submit(submission(bundle))
    await world.steps()
    text = await people["prometheus"].metrics()
    assert 'jupyter_gq_queue_used_gpus{queue="vision"} 0.5\n' in text
    assert 'jupyter_gq_queue_running_jobs{queue="vision"} 1\n' in text
    assert not re.search(r"\bann\b", text)
    for line in text.splitlines():
        assert line.startswith("#") or line.split("{")[0].split(" ")[0].startswith("jupyter_gq_")


async def test_the_token_of_a_job_is_no_use_for_another_nor_after_the_end(people, world, bundle):
    first, _ = await people["ann"].submit(submission(bundle))
    second, _ = await people["ann"].submit(submission(bundle))
    await world.steps()
    token = world.job_token(first.id)
    foreign = Delivery(people["ann"].url, second.id, token)
    with refuses(401, "invalid_token"):
        await foreign.send([piece(1)])
    foreign.close()
    with refuses(401, "invalid_token"):
        await ServiceClient(people["ann"].url, token).job(first.id)
    own = Delivery(people["ann"].url, first.id, token)
    assert await own.send([piece(1)]) == 1
    world.machine.end(first.id)
    await world.steps()
    for asked in (own.send([piece(2)]), own.heartbeat(1)):
        with refuses(401, "invalid_token"):
            await asked
    own.close()
    assert (await people["ann"].job(first.id)).last_seq == 1


async def test_a_delivery_that_takes_longer_than_its_run_is_refused(people, world, bundle):
    job, _ = await people["ann"].submit(submission(bundle))
    await world.steps()
    address = urlsplit(people["ann"].url)
    body = json.dumps({"events": [piece(1)]}).encode()
    head = (
        f"POST {address.path}api/v1/jobs/{job.id}/outputs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: token {world.job_token(job.id)}\r\nContent-Length: {len(body)}\r\n"
        "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(head.encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 (Continue)\r\n\r\n", "the head was not accepted"
    world.machine.end(job.id)
    await world.steps()
    writer.write(body)
    assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
    writer.close()
    await writer.wait_closed()
    assert (await people["ann"].job(job.id)).last_seq == 0


async def test_a_large_delivery_is_cut_into_requests_that_pass(people, world, bundle):
    job, _ = await people["ann"].submit(submission(bundle))
    await world.steps()
    delivery = Delivery(people["ann"].url, job.id, world.job_token(job.id))
    pieces = [piece(number, "x" * 100_000) for number in range(1, 121)]
    assert await delivery.send(pieces) == 120
    delivery.close()
    assert (await people["ann"].job(job.id)).last_seq == 120


async def test_a_server_name_is_one_segment_whatever_is_in_it(serve):
    controller = Raises(NotFound("reached"))
    served = await serve(controller)
    client = ServiceClient(served.url, "ann")
    names = ["a/b", "../x", "caf\u00e9", "%2F", "-x", ""]
    for name in names:
        with refuses(404, "not_found"):
            await client.keep(name)
    assert [given[1] for _, given in controller.acts] == names
    client.close()


async def test_nobody_there_is_unavailable_and_names_the_address():
    client = ServiceClient("http://127.0.0.1:9/services/jupyter-gq", "secret-token", timeout=1)
    for attempt in (client.me(), anext(client.events())):
        with pytest.raises(ServiceUnavailable, match=r"127\.0\.0\.1:9") as caught:
            await attempt
        assert caught.value.status == 503
        assert "secret-token" not in str(caught.value) + repr(client._transport)
    client.close()


async def test_an_outage_of_the_hub_is_unavailable_with_the_services_own_words(serve, hub):
    served = await serve(Raises(AssertionError()), hub_url="http://127.0.0.1:9/hub/api")
    with pytest.raises(ServiceUnavailable) as caught:
        await ServiceClient(served.url, "ann").me()
    assert caught.value.problem.code == "hub_unreachable"


async def test_an_answer_of_somebody_else_is_told_apart(serve, hub):
    """A proxy's page, or a service of another version."""
    client = ServiceClient(hub.url, "ann")
    with refuses(404, "unexpected_answer"):
        await client.me()
    client.close()


async def test_the_runner_imports_its_channel_without_pydantic():
    code = "import sys, jupyter_gq.client.outputs.delivery; print([m for m in sys.modules if m.startswith('pydantic')])"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []

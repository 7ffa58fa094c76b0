"""Notices of the real service's process: the end of a real job reaches a web server and a mail server."""

import email
import json
from contextlib import closing
from email.policy import default as modern

import pytest

from jupyter_gq.client.connection.http import ServiceClient
from tests.notice_servers import http_server, mail_server
from tests.patience import eventually

from .test_killed_service import a_job, running_service, until

pytestmark = pytest.mark.asyncio

#: Settings as an administrator writes them; a test does not wait until a job is worth a notice.
SETTINGS = """
c.Notifications.webhook = "http://127.0.0.1:{web}/hooks/of-the-test"
c.Notifications.webhook_headers = {{"Authorization": "Bearer of-the-test"}}
c.Notifications.mail_address = "{{username}}@example.org"
c.Notifications.mail_sender = "gpu@example.org"
c.Notifications.mail_server = "127.0.0.1:{mail}"
c.Notifications.mail_security = "none"
c.Notifications.min_minutes = 0
"""


async def test_the_end_of_a_job_is_told_by_webhook_and_mail(tmp_path):
    async with (
        http_server(b"HTTP/1.1 204 No Content\r\n\r\n") as (web, requests),
        mail_server() as (port, _, mails),
        running_service(tmp_path, SETTINGS.format(web=web, mail=port)) as service,
    ):
        with closing(ServiceClient(f"{service.url}/services/jupyter-gq/", "ann")) as ann:
            await until(ann.health, "the service", service)
            view, _ = await ann.submit(a_job(tmp_path), "key-1")

            async def runs():
                return (await ann.job(view.id)).phase == "running"

            await until(runs, "the job at work", service)
            assert (requests, mails) == ([], []), "a job that runs is no news"
            (tmp_path / "enough").touch()
            await eventually(lambda: requests and mails, lambda: f"both notices\n{service.log()}", seconds=30)
            assert (await ann.job(view.id)).phase == "done"
    (request,), (mail,) = requests, mails
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hooks/of-the-test ")
    assert b"Authorization: Bearer of-the-test" in head
    document = json.loads(body)
    assert (document["job"], document["owner"], document["phase"]) == (view.id, "ann", "done")
    letter = email.message_from_bytes(mail, policy=modern)
    assert (letter["From"], letter["To"]) == ("gpu@example.org", "ann@example.org")
    assert letter["Subject"] == "Job count is done"
    assert view.id in letter.get_content()

"""Notices reach a real HTTP server and a real mail server, and their refusals are said without secrets."""

import email
import json
from email.policy import default as modern

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.backends.notifications.mail import Mail, MailServer
from jupyter_gq.backends.notifications.notifier import Notice
from jupyter_gq.backends.notifications.settings import Notifications
from jupyter_gq.backends.notifications.webhook import Webhook
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError
from tests.notice_servers import http_server, mail_server

pytestmark = pytest.mark.asyncio


def a_notice(**changes: object) -> Notice:
    fields = {
        "job": "job-7",
        "name": "train: größer.ipynb",
        "owner": "ann",
        "queue": "vision",
        "phase": "failed",
        "sentence": "Cell 3 raised ValueError: no such file.",
        "took": Seconds(7500),
        "finished_at": Instant(1_790_000_000.0),
    }
    return Notice(**{**fields, **changes})


async def test_a_webhook_gets_the_notice_and_the_headers() -> None:
    async with http_server(b"HTTP/1.1 204 No Content\r\n\r\n") as (port, requests):
        await Webhook(f"http://127.0.0.1:{port}/hooks/secret", {"Authorization": "Bearer t"}).send(a_notice())
    head, body = requests[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /hooks/secret ")
    assert b"Authorization: Bearer t" in head
    document = json.loads(body)
    assert document["text"] == (
        "Job train: größer.ipynb has failed. ann sent it to the queue vision 2 h 5 min before its end. "
        "Cell 3 raised ValueError: no such file."
    )
    assert (document["job"], document["owner"], document["phase"]) == ("job-7", "ann", "failed")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "refused a notification: 403 Forbidden."),
        (b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n", "302 Found."),
        (b"", "could not be reached"),
        (b"nonsense\r\n\r\n", "could not be reached"),
    ],
)
async def test_a_refusing_webhook_is_named_without_its_path(answer: bytes, said: str) -> None:
    async with http_server(answer) as (port, _):
        with pytest.raises(BackendError, match=said) as failure:
            await Webhook(f"http://127.0.0.1:{port}/hooks/secret", {}).send(a_notice())
    assert "secret" not in str(failure.value)


async def test_the_owner_gets_a_mail() -> None:
    async with mail_server() as (port, commands, mails):
        server = MailServer(host="127.0.0.1", port=port, security="none", user="gpu", password="s3cret")
        await Mail(server, "jupyter-gq <gpu@example.org>", "{username}@example.org").send(a_notice())
    assert any(command.startswith(b"AUTH PLAIN") for command in commands)
    mail = email.message_from_bytes(mails[0], policy=modern)
    assert (mail["To"], mail["From"]) == ("ann@example.org", "jupyter-gq <gpu@example.org>")
    assert mail["Subject"] == "Job train: größer.ipynb has failed"
    assert mail.get_content().splitlines()[0].endswith("Cell 3 raised ValueError: no such file.")


async def test_a_sweep_is_told_as_such() -> None:
    notice = a_notice(group="sweep-1", name="digits", sentence="3 jobs: 1 failed, 2 done.")
    async with mail_server() as (port, _, mails), http_server(b"HTTP/1.1 204 No Content\r\n\r\n") as (web, requests):
        server = MailServer(host="127.0.0.1", port=port, security="none")
        await Mail(server, "gpu@example.org", "{username}@example.org").send(notice)
        await Webhook(f"http://127.0.0.1:{web}/", {}).send(notice)
    mail = email.message_from_bytes(mails[0], policy=modern)
    document = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert (mail["Subject"], document["group"]) == ("Sweep digits has ended", "sweep-1")
    assert document["text"].endswith("2 h 5 min before its end. 3 jobs: 1 failed, 2 done.")
    assert mail.get_content().splitlines()[-1].startswith("The sweep is sweep-1.")


async def test_a_refusing_mail_server_is_named_without_the_password() -> None:
    async with mail_server(refuses=b"RCPT") as (port, _, mails):
        server = MailServer(host="127.0.0.1", port=port, security="none", user="gpu", password="s3cret")
        with pytest.raises(BackendError, match="it refuses the recipient ann@example") as failure:
            await Mail(server, "gpu@example.org", "{username}@example.org").send(a_notice())
    assert mails == []
    assert "s3cret" not in str(failure.value) + repr(server)


@pytest.mark.parametrize("owner", ["ann, bob@evil.org", "a\nBcc: all", "x <y>", "a b"])
async def test_a_name_that_would_make_another_address_gets_no_mail(owner: str) -> None:
    async with mail_server() as (port, commands, _):
        server = MailServer(host="127.0.0.1", port=port, security="none")
        with pytest.raises(BackendError, match="makes no mail address"):
            await Mail(server, "gpu@example.org", "{username}@example.org").send(a_notice(owner=owner))
    assert commands == []


@pytest.mark.parametrize("name", ["two\nlines", "a\r\nBcc: all@example.org"])
async def test_the_name_of_a_job_adds_no_header(name: str) -> None:
    async with mail_server() as (port, _, mails):
        server = MailServer(host="127.0.0.1", port=port, security="none")
        await Mail(server, "gpu@example.org", "{username}@example.org").send(a_notice(name=name))
    assert email.message_from_bytes(mails[0], policy=modern)["Bcc"] is None


async def test_nobody_answers_at_the_mail_server() -> None:
    server = MailServer(host="127.0.0.1", port=9, security="none")
    with pytest.raises(BackendError, match=r"could not be sent through 127\.0\.0\.1: ConnectionRefusedError"):
        await Mail(server, "gpu@example.org", "{username}@example.org").send(a_notice())


async def test_nothing_is_sent_without_settings() -> None:
    assert Notifications().rule().notifiers == ()


async def test_settings_make_both_ways() -> None:
    config = Config(
        Notifications={
            "webhook": "https://chat.example.org/x",
            "mail_address": "{username}@example.org",
            "mail_sender": "gpu@example.org",
            "mail_server": "smtp.example.org:2525",
            "min_minutes": 1,
        }
    )
    rule = Notifications(config=config).rule()
    assert [way.name for way in rule.notifiers] == ["webhook", "mail"]
    assert (rule.phases, rule.min_seconds) == ({"done", "failed"}, 60)


@pytest.mark.parametrize(
    "settings",
    [
        {"webhook": "chat.example.org"},
        {"webhook": "file:///etc/passwd"},
        {"mail_address": "{username}@example.org"},
        {"mail_address": "ann", "mail_sender": "gpu@example.org"},
        {"mail_address": "a@b", "mail_sender": "a@b", "mail_server": "host:smtp"},
        {"phases": ["ended"]},
        {"min_minutes": -1},
    ],
)
async def test_settings_that_cannot_work_are_refused(settings: dict) -> None:
    with pytest.raises(TraitError):
        Notifications(config=Config(Notifications=settings)).rule()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("webhook", 7654321),
        ("webhook", ["https://7654321"]),
        ("webhook", "https://[7654321"),
        ("webhook", "https://host:7654321/"),
        ("webhook_headers", "Bearer 7654321"),
        ("webhook_headers", {"Authorization": 7654321}),
        ("webhook_headers", {7654321: "Bearer"}),
        ("mail_password", {"password": "7654321"}),
    ],
)
async def test_a_refused_secret_is_named_and_not_shown(setting: str, value: object) -> None:
    with pytest.raises(TraitError, match=rf"^c\.Notifications\.{setting} is not ") as refused:
        Notifications(config=Config({"Notifications": {setting: value}}))
    assert "7654321" not in str(refused.value)


async def test_a_mail_server_with_a_password_is_refused_without_it() -> None:
    mail = {"mail_address": "{username}@x.org", "mail_sender": "gpu@x.org", "mail_server": "gpu:7654321@host:25"}
    with pytest.raises(TraitError, match=r"The port in c\.Notifications\.mail_server is not a number") as refused:
        Notifications(config=Config({"Notifications": mail})).rule()
    assert "7654321" not in str(refused.value)


async def test_bytes_that_are_no_text_are_refused_without_being_shown() -> None:
    with pytest.raises(TraitError, match=r"c\.Notifications\.mail_password is not") as refused:
        Notifications(mail_password="pässword".encode())
    assert "ssword'" not in str(refused.value)
    assert refused.value.__cause__ is None

"""Notifications by e-mail."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from jupyter_gq.domain.errors import BackendError

from .notifier import Notice
from .text import describe

_TIMEOUT = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MailServer:
    """A mail server, and how to talk to it."""

    host: str
    port: int
    #: "tls" from the first byte, "starttls" after a greeting, or "none".
    security: str
    #: Name of the account there; "" = no login.
    user: str = ""
    #: Never shown or logged.
    password: str = field(default="", repr=False)


class Mail:
    """E-mail to the owner of each job, through one server."""

    name = "mail"

    def __init__(self, server: MailServer, sender: str, address: str) -> None:
        """Create a sender of mail; `{username}` in `address` becomes the name of the job's owner."""
        self._server, self._sender, self._address = server, sender, address

    async def send(self, notice: Notice) -> None:
        """Send the mail in a thread; raise `BackendError` if the server refuses it or does not answer."""
        try:
            await asyncio.to_thread(self._send, self._write(notice))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise BackendError(f"A mail could not be sent through {self._server.host}: {_explain(error)}.") from None

    def _write(self, notice: Notice) -> EmailMessage:
        """Return the mail; raise `BackendError` if the owner's name makes no address."""
        to = self._address.replace("{username}", notice.owner)
        if any(not character.isprintable() or character in " ,;<>" for character in to):
            raise BackendError(f"{notice.owner!r} makes no mail address, so this user gets no mail.")
        mail = EmailMessage()
        mail["Subject"] = notice.subject
        mail["From"] = self._sender
        mail["To"] = to
        mail["Date"] = formatdate(notice.finished_at)
        mail["Message-ID"] = make_msgid(domain=self._sender.rpartition("@")[2].rstrip("> ") or None)
        where = f"The job is {notice.job}. Its output is under its cell and in the panel."
        if notice.group:
            where = f"The sweep is {notice.group}. Its table is under its cell, and the panel lists its jobs."
        mail.set_content(f"{describe(notice)}\n\n{where}\n")
        return mail

    def _send(self, mail: EmailMessage) -> None:
        server = self._server
        context = ssl.create_default_context()
        if server.security == "tls":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=_TIMEOUT, context=context)
        else:
            connection = smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT)
        with connection:
            if server.security == "starttls":
                connection.starttls(context=context)
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(mail)


def _explain(error: Exception) -> str:
    """Return the answer of the server, or the name of the error; neither holds the password."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {error.smtp_error!r}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"it refuses the recipient {', '.join(error.recipients)}"
    return f"{type(error).__name__}: {error}"

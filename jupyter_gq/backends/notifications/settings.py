"""The settings of notifications outside of JupyterLab."""

from urllib.parse import urlsplit

from traitlets import Enum, List, TraitError, Unicode, validate
from traitlets.config import Configurable

from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.domain.amount import Seconds

from .mail import Mail, MailServer
from .notifier import NoticeRule, Notifier
from .secret_traits import SecretText, SecretTexts
from .webhook import Webhook

_PORTS = {"tls": 465, "starttls": 587, "none": 25}


class Notifications(Configurable):
    """Notifications outside of JupyterLab; a change takes effect when the service starts again.

    The address and headers of the webhook and the password are not stored in the database, because they are secret.
    """

    webhook = SecretText(
        help="""Address that gets a POST request for each job or sweep that ends, such as
        "https://chat.example.org/hooks/abc". The request has a JSON document with `text`, `job`, `name`, `owner`,
        `queue`, `phase`, `sentence`, `finished_at` and `group`. Default: none."""
    ).tag(config=True)
    webhook_headers = SecretTexts(
        help='Headers of these requests, such as {"Authorization": "Bearer ..."}. Default: none.',
    ).tag(config=True)
    mail_address = Unicode(
        help="""Mail address of a user, such as "{username}@example.org"; the owner of a job or sweep that ends gets a
        mail there. Default: none, and no mail is sent."""
    ).tag(config=True)
    mail_sender = Unicode(help='Sender of mails, such as "jupyter-gq <gpu@example.org>".').tag(config=True)
    mail_server = Unicode(
        "localhost", help='Mail server, with its port if that is unusual: "smtp.example.org:2525". Default: localhost.'
    ).tag(config=True)
    mail_security = Enum(
        list(_PORTS),
        "starttls",
        help="""Encryption of the connection to the mail server: `tls` from the first byte (port 465), `starttls` (587),
        or `none` (25), for a server on this machine. Default: starttls.""",
    ).tag(config=True)
    mail_user = Unicode(help="Account at the mail server. Default: none, and there is no login.").tag(config=True)
    mail_password = SecretText(help="Password of that account.").tag(config=True)
    phases = List(
        Enum(["done", "failed", "cancelled"]),
        ["done", "failed"],
        help="""Ends of jobs that are reported: `done`, `failed`, `cancelled`. A job that was ended at its
        maximum running time is reported with those that failed, and with those that were cancelled. A sweep is reported
        if one of its jobs ended so. Default: ["done", "failed"].""",
    ).tag(config=True)
    min_minutes = FiniteFloat(
        5.0,
        help="Jobs and sweeps that ended sooner after they were sent are not reported, in minutes. Default: 5.",
    ).tag(config=True)

    @validate("webhook")
    def _check_webhook(self, proposal: dict[str, str]) -> str:
        """Return the address; raise `TraitError` if it is none of HTTP."""
        address = proposal["value"]
        if address and not _is_http(address):
            raise TraitError(
                "c.Notifications.webhook is not an address that begins with https:// or http:// and names a host, such "
                "as https://chat.example.org/hooks/abc."
            )
        return address

    def rule(self) -> NoticeRule:
        """Return what these settings describe; raise `TraitError` if the settings of mail are not complete."""
        ways: list[Notifier] = []
        if self.webhook:
            ways.append(Webhook(self.webhook, self.webhook_headers))
        if self.mail_address:
            if "@" not in self.mail_address or "@" not in self.mail_sender:
                raise TraitError(
                    "Mails need c.Notifications.mail_address, such as '{username}@example.org', and "
                    "c.Notifications.mail_sender, such as 'gpu@example.org'."
                )
            ways.append(Mail(self._mail_server(), self.mail_sender, self.mail_address))
        return NoticeRule(
            notifiers=tuple(ways), phases=frozenset(self.phases), min_seconds=Seconds(self.min_minutes * 60)
        )

    def _mail_server(self) -> MailServer:
        """Return the mail server; raise `TraitError` if its port is no number."""
        host, _, port = self.mail_server.partition(":")
        if port and not port.isdecimal():
            # Without the value: somebody may have written the account and the password before the host.
            raise TraitError(
                "The port in c.Notifications.mail_server is not a number. Write a host, or a host and its port, such "
                "as smtp.example.org:2525."
            )
        return MailServer(
            host=host,
            port=int(port) if port else _PORTS[self.mail_security],
            security=self.mail_security,
            user=self.mail_user,
            password=self.mail_password,
        )


def _is_http(address: str) -> bool:
    """Return whether an address has a scheme of HTTP, a host, and no port that is impossible."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # which is parsed here
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)

"""Errors of the API server, as sentences.

Rules
-----
1. Own words. A refusal keeps the server's text: it names the quota, the webhook or the rule that an administrator has
   to look at.
2. Rights. A missing right is named, so that a role can be mended without reading a log. The server answers in the
   same way if the namespace is gone with its roles, so the sentence names that cause too.
3. Retry. An error that may not occur the next time is `Unreachable`; an error that will is a refusal.
"""

import json
import re

from jupyter_gq.domain.errors import BackendError

#: Statuses to be asked again later: too many requests, or the server is not well.
_TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})
_RIGHT = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"(?P<where>.*)', re.S)
_NAMESPACE = re.compile(r'in the namespace "([^"]+)"')


class ClusterError(BackendError):
    """A request that the API server did not carry out."""

    def __init__(self, sentence: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.status, self.reason = sentence, status, reason


class Unreachable(ClusterError):
    """A missing or senseless answer: nothing is known of what became of the request."""


class Refused(ClusterError):
    """A refusal: the API server will not do that, however often it is asked."""


class Exists(Refused):
    """An object of that name exists already."""


class Missing(Refused):
    """No object of that name, or no such namespace."""


class Expired(ClusterError):
    """A version after which changes are no longer known: list again."""


def error_of(status: int, body: bytes, what: str) -> ClusterError:
    """Return the error for an answer that is no success, with a sentence that says what was asked for.

    `what` was asked for, as in "create the pod gq-1". The class is `Expired` for 410, and `Unreachable` if another try
    may help: a busy or failing server, or two writers at once. Any other answer is final: `Missing`, `Exists` or
    `Refused`.
    """
    message, reason = _read(body)
    told = message or f"HTTP status {status}"
    kind: type[ClusterError] = Refused
    if status == 410 or reason in {"Expired", "Gone"}:
        kind = Expired
    elif status in _TEMPORARY:
        kind = Unreachable
    elif status == 404:
        kind = Missing
    elif status == 409 and reason == "AlreadyExists":
        kind = Exists
    elif status == 409:
        # Two writers met: the next try sees what the other one did.
        kind = Unreachable
    sentence = f"The cluster did not {what}: {told.rstrip('.')}."
    if status == 401:
        sentence = f"The cluster does not accept the service's credentials, so it did not {what}."
    elif status == 403 and (right := _RIGHT.search(told)) is not None:
        sentence = _missing_right(right, what)
    return kind(sentence, status=status, reason=reason)


def _missing_right(right: re.Match[str], what: str) -> str:
    """Return the sentence for a missing right. Roles are deleted with their namespace, so that is named as a cause."""
    where = right["where"].split(":")[0].strip().rstrip(".")
    sentence = (
        f"The service may not {what}: {right['user']} lacks the right to {right['verb']} {right['resource']}"
        f"{' ' + where if where else ''}."
    )
    namespace = _NAMESPACE.search(where)
    if namespace is None:
        return f"{sentence} Give its account the rights of the chart's role."
    return (
        f"{sentence} If the namespace {namespace[1]} was deleted, its roles are gone too: `helm upgrade` makes it and "
        "them again. Otherwise give the account the rights of the chart's role."
    )


def _read(body: bytes) -> tuple[str, str]:
    """Return message and reason from the JSON of a Status object.

    For a body that is not JSON, return its beginning and ""; for other JSON than an object, two empty texts.
    """
    try:
        status: object = json.loads(body)
    except ValueError:
        return body[:300].decode(errors="replace").strip(), ""
    if not isinstance(status, dict):
        return "", ""
    return str(status.get("message") or ""), str(status.get("reason") or "")

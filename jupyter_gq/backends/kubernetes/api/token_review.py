"""The answer to a TokenReview: which pod a token was made for."""

import base64

from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonMapping


def pod_of(status: JsonMapping, token: str, audience: str) -> PodIdentity | None:
    """Return the pod of a token from the status of its review; None if it is no pod's, or not for that audience."""
    if not status.get("authenticated") or audience not in (status.get("audiences") or ()):
        return None
    user = status.get("user") or {}
    match str(user.get("username", "")).split(":"):
        case ["system", "serviceaccount", namespace, account]:
            pass
        case _:
            return None
    extra = user.get("extra") or {}

    def first(key: str) -> str:
        return str(next(iter(extra.get(f"authentication.kubernetes.io/{key}") or ()), ""))

    if not first("pod-name") or not first("pod-uid"):
        return None
    return PodIdentity(
        namespace=namespace,
        service_account=account,
        pod=first("pod-name"),
        uid=first("pod-uid"),
        node=first("node-name"),
        expires=_expires(token),
    )


def _expires(token: str) -> float | None:
    """Return the expiry that a JWT names, in seconds since the epoch; None if it names none.

    Nothing is verified, so this is only for a token that the cluster vouches for.
    """
    try:
        _, claims, _ = token.split(".")
        document = bounded_json.parse(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)).decode())
        return float(document["exp"])
    except (ValueError, KeyError, TypeError):
        return None

"""Every route needs a user, and asks the authorizer for the right to use `jupyter_gq`."""

import inspect
import logging

import pytest
from jupyter_server.auth import Authorizer

from jupyter_gq.lab.handlers.base import GQHandler
from jupyter_gq.lab.handlers.routes import ROUTES

VERBS = ("get", "post", "put", "patch", "delete", "head")
CALLS = [
    (verb.upper(), path.replace("([^/]+)", "x"))
    for path, handler in ROUTES
    for verb in VERBS
    if getattr(handler, verb) is not getattr(GQHandler, verb)
]


class AllowsNothing(Authorizer):
    """An authorizer that refuses everything and records the requests."""

    asked: list = []

    def is_authorized(self, handler, user, action, resource):
        self.asked.append((action, resource))
        return False


def test_there_are_routes_to_check():
    assert len(CALLS) == 30


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_every_route_needs_a_token(on_hub, service, jp_fetch, method, path):
    response = await jp_fetch(
        *path.split("/"),
        method=method,
        headers={"Authorization": ""},
        allow_nonstandard_methods=True,
        raise_error=False,
    )
    assert response.code == 403
    assert b'"code": "forbidden"' in response.body
    assert service.asked == []


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_every_method_asks_the_authorizer(on_hub, service, jp_serverapp, jp_fetch, method, path):
    authorizer = AllowsNothing(parent=jp_serverapp, identity_provider=jp_serverapp.identity_provider)
    authorizer.asked = []
    jp_serverapp.web_app.settings["authorizer"] = authorizer
    response = await jp_fetch(*path.split("/"), method=method, allow_nonstandard_methods=True, raise_error=False)
    assert response.code == 403
    assert authorizer.asked == [("read" if method == "GET" else "write", "jupyter_gq")]
    assert service.asked == []


def test_no_route_counts_as_activity():
    assert all(not handler._track_activity for _, handler in ROUTES)
    assert all(inspect.getdoc(handler) for _, handler in ROUTES)


async def test_what_the_extension_logs_is_plain(on_hub, extension):
    make = logging.getLogRecordFactory()
    record = make("ServerApp", logging.INFO, inspect.getfile(GQHandler), 1, "%s", ("x\nERROR y\u202e",), None)
    assert record.getMessage() == "x ERROR y"

"""The servers of a user that the pure-Python proxy counts together."""

import pytest

from jupyter_gq.hub.proxy import find_shared_route


@pytest.mark.parametrize(
    ("route", "shared"),
    [
        ("/", "/"),
        ("/services/gq", "/services/gq"),
        ("/user/ann", "/user/ann"),
        ("/user/ann/second", "/user/ann"),
        ("/user/ann@example.org/second", "/user/ann@example.org"),
        ("/base/user/ann/second/", "/base/user/ann"),
        ("/ann.example.org/user/ann/second", "/ann.example.org/user/ann"),
        ("/user/user/user", "/user/user"),
        # A Hub behind a server of another Hub.
        ("/user/admin/proxy/8000", "/user/admin/proxy/8000"),
        ("/user/admin/proxy/8000/services/gq", "/user/admin/proxy/8000/services/gq"),
        ("/user/admin/proxy/8000/user/ann/second", "/user/admin/proxy/8000/user/ann"),
        ("/user/admin/proxy/8000/user/bob", "/user/admin/proxy/8000/user/bob"),
    ],
)
def test_the_servers_of_one_user_share_a_route(route: str, shared: str) -> None:
    assert find_shared_route(route) == shared

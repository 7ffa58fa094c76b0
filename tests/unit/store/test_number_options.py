"""The numbers in the URL of a database are those that libpq reads, which tells of others only when it connects."""

import socket
from urllib.parse import quote

import pytest

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.store.engine import parse_url

pq = pytest.importorskip("psycopg.pq")
conninfo = pytest.importorskip("psycopg.conninfo")

_NAMES = ["connect_timeout", "keepalives", "keepalives_idle", "tcp_user_timeout"]
_SPELLINGS = [
    *("10", "1_0", " 10", "10 ", "\t10\n", "+10", "-1", "- 1", "--1", "010", "0x10", "1e3", "1.0", "\u00a010"),
    *(
        "\u0661\u0660",
        "\uff11\uff10",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "9" * 20,
        "0" * 5000 + "1",
    ),
]


@pytest.fixture(scope="module")
def deaf_port():
    """Yield a port at which nobody answers, so that libpq gets as far as its options."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("text", _SPELLINGS)
def test_a_number_is_refused_if_libpq_refuses_it(deaf_port, name, text):
    told = pq.PGconn.connect(
        conninfo.make_conninfo(host="127.0.0.1", port=str(deaf_port), **{name: text}).encode()
    ).error_message.decode()
    url = f"postgresql://gq@host/gq?{name}={quote(text)}"
    if "invalid integer value" in told:
        with pytest.raises(AdminError, match=f"{name}=.* is no whole number"):
            parse_url(url)
    else:
        parse_url(url)

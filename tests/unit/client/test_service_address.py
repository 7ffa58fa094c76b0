"""The socket of the service: who may listen at it, and that nothing is sent to anybody else."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.connection.service_address import ServiceAddress, SocketPlace
from jupyter_gq.client.connection.transport import Transport
from jupyter_gq.client.problems import ServiceUnavailable
from jupyter_gq.domain.errors import AdminError
from tests.patience import scaled

NOBODY = 65534
#: A program of another account that listens at a socket, and prints the number of bytes that it is sent.
STRANGER = f"""
import os, socket, sys
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listening.listen()
print("ready", flush=True)
sent = b""
while sys.stdin.read(1):
    connection, _ = listening.accept()
    while more := connection.recv(4096):
        sent += more
    print(len(sent), flush=True)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


@pytest.fixture
def folder(tmp_path):
    """A folder whose owner the test may change, and which other accounts can reach."""
    place = Path("/tmp").resolve() / f"gq-{os.getpid()}-{tmp_path.name[-20:]}"
    place.mkdir(mode=0o755)
    yield place
    for each in place.iterdir():
        each.unlink()
    place.rmdir()


@pytest.fixture
def place(folder):
    return SocketPlace(path=folder / "gq.sock", account=os.geteuid())


@pytest.fixture
def stranger(folder, place):
    """The program of another account that listens at that place; its folder belongs to that account then."""
    os.chown(folder, NOBODY, NOBODY)
    command = [sys.executable, "-c", STRANGER, str(place.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@contextlib.asynccontextmanager
async def listening(place, answer):
    """Somebody of this account listens at the place and gives everybody this answer; yields what was sent."""
    requests = []

    async def converse(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(converse, str(place.path))
    try:
        yield requests
    finally:
        server.close()
        await server.wait_closed()


async def refusal(place):
    """Return what the client says instead of sending its token."""
    transport = Transport(place.url("/services/gq/"), "secret")
    with pytest.raises(ServiceUnavailable) as caught:
        await transport.request("GET", "me")
    transport.close()
    client = ServiceClient(place.url("/services/gq/"), "secret")
    with contextlib.closing(client), pytest.raises(ServiceUnavailable) as streamed:
        await anext(client.events())
    assert streamed.value.problem == caught.value.problem
    return caught.value.problem


def test_the_address_names_the_socket_and_its_account():
    place = SocketPlace(path=Path("/var/lib/jupyter gq/ä/gq.sock"), account=7)
    address = ServiceAddress.parse(place.url("/lab/services/gq/"))
    assert address == ServiceAddress(http="http://localhost/lab/services/gq/", socket=place)
    assert address.shown == "/var/lib/jupyter gq/ä/gq.sock"


@pytest.mark.parametrize(("user", "account"), [("", os.geteuid()), ("7@", 7), ("@", 0), ("ann@", 0), ("\u0667@", 0)])
def test_an_account_that_is_no_number_trusts_root_only(user, account):
    address = ServiceAddress.parse(f"http+unix://{user}%2Frun%2Fs.sock/gq")
    assert address.socket == SocketPlace(path=Path("/run/s.sock"), account=account)


def test_a_path_that_is_too_long_names_the_setting(tmp_path):
    SocketPlace(path=Path("/" + 106 * "x"), account=0).url("/")
    with pytest.raises(AdminError, match=r"has 108 bytes.*c\.SchedulerService\.socket_dir"):
        SocketPlace(path=Path("/" + 105 * "x" + "ä"), account=0).url("/")


@pytest.mark.asyncio
async def test_requests_and_events_use_the_socket(place):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    async with listening(place, answer) as requests:
        transport = Transport(place.url("/services/gq/"), "secret")
        assert (await transport.request("GET", "me")).json() == {}
        assert requests[0].startswith(b"GET /services/gq/api/v1/me HTTP/1.1\r\n")
        assert b"Authorization: token secret" in requests[0]
        transport.close()
    place.path.unlink(missing_ok=True)
    event = b"HTTP/1.1 200 OK\r\n\r\nevent: queues\nid: 1\ndata: {}\n\n"
    async with listening(place, event) as requests:
        with contextlib.closing(ServiceClient(place.url("/services/gq/"), "secret")) as client:
            events = client.events()
            assert (await anext(events)).kind == "queues"
            await events.aclose()
        assert requests[0].startswith(b"GET /services/gq/api/v1/events HTTP/1.1\r\n")


@pytest.mark.asyncio
async def test_a_service_that_is_down_is_named_by_its_socket(place):
    assert f"does not answer at {place.path}: " in (await refusal(place)).message
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(place.path))
    problem = await refusal(place)
    assert problem.code == "service_unavailable"
    assert "Connection refused" in problem.message


@pytest.mark.asyncio
async def test_a_client_waits_while_the_service_has_too_many_new_connections(place):
    with socket.socket(socket.AF_UNIX) as busy, contextlib.ExitStack() as opened:
        busy.bind(str(place.path))
        busy.listen(0)
        earlier = opened.enter_context(socket.socket(socket.AF_UNIX))
        earlier.connect(str(place.path))
        transport = Transport(place.url("/"), "secret")
        request = asyncio.create_task(transport.request("GET", "me"))
        done, _ = await asyncio.wait({request}, timeout=0.2)
        assert not done
        opened.enter_context(busy.accept()[0])
        busy.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(scaled(60)):
            connection, _ = await loop.sock_accept(busy)
            opened.enter_context(connection)
            connection.setblocking(False)
            assert (await loop.sock_recv(connection, 100)).startswith(b"GET /api/v1/me ")
            await loop.sock_sendall(connection, b"HTTP/1.1 204 No Content\r\n\r\n")
            assert (await request).status == 204
        transport.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
async def test_a_folder_in_which_others_can_write_is_refused(folder, place, mode):
    async with listening(place, b"") as requests:
        folder.chmod(mode)
        problem = await refusal(place)
    assert problem.code == "untrusted_service"
    assert "because other accounts can write in its folder" in problem.message
    assert requests == []


@needs_root
@pytest.mark.asyncio
async def test_a_folder_or_a_socket_of_another_account_is_refused(folder, place):
    async with listening(place, b"") as requests:
        os.chown(place.path, NOBODY, NOBODY)
        assert f"because it belongs to the account nobody ({NOBODY})" in (await refusal(place)).message
        os.chown(place.path, 0, 0)
        os.chown(folder, NOBODY, NOBODY)
        assert f"its folder belongs to the account nobody ({NOBODY})" in (await refusal(place)).message
    assert requests == []


@needs_root
@pytest.mark.asyncio
async def test_a_program_of_another_account_is_sent_nothing(folder, place, stranger):
    """Also if folder and socket look right: who listens is what counts."""
    for owned, sentence in ((False, "its folder belongs to"), (True, f"a program of the account nobody ({NOBODY})")):
        if owned:
            os.chown(folder, 0, 0)
            os.chown(place.path, 0, 0)
        problem = await refusal(place)
        assert problem.code == "untrusted_service"
        assert sentence in problem.message
        assert "The service runs as the account root (0)." in problem.message
    stranger.stdin.write("x")
    stranger.stdin.flush()
    assert stranger.stdout.readline() == "0\n", "the token was sent"


@needs_root
@pytest.mark.asyncio
async def test_the_account_of_the_address_is_the_one_that_is_trusted(place, stranger):
    """A service that does not run as root: its own account is trusted, and another user's is not."""
    service = SocketPlace(path=place.path, account=NOBODY)
    assert service.find_fault() == ""
    assert "its folder belongs to" in (await refusal(SocketPlace(path=place.path, account=12345))).message

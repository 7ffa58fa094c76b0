"""The addresses of the service."""

import asyncio
import gc
import os
import socket
import stat

import pytest
from tornado.netutil import bind_sockets

from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.listener import Listener
from jupyter_gq.api.standby import Standby
from jupyter_gq.client.connection.service_address import SocketPlace
from jupyter_gq.client.connection.transport import Transport
from jupyter_gq.client.problems import ServiceUnavailable
from jupyter_gq.domain.errors import AdminError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # tornado leaves its socket open
def test_port_that_another_program_uses_is_an_error_with_a_sentence():
    async def listen(port):
        listener = Listener(
            url=f"http://127.0.0.1:{port}", prefix="/services/gq/", authenticator=HubAuthenticator("http://hub", "")
        )
        async with listener.serve(Standby("1.0", lambda: "starting")):
            pass

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(AdminError, match=r"cannot listen on .*: another program uses it"):
            asyncio.run(listen(other.getsockname()[1]))
    gc.collect()


async def answers_at(place):
    """Return whether a service on one machine can listen at the place, and answers there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    authenticator = HubAuthenticator("http://hub", "")
    listener = Listener(
        url=f"http://127.0.0.1:{port}", prefix="/services/gq/", authenticator=authenticator, socket=place
    )
    async with listener.serve(Standby("1.0", lambda: "starting")):
        with pytest.raises(ServiceUnavailable) as caught:
            await Transport(listener.service_url, "token").request("GET", "ready")
    return caught.value.problem.message == "starting"


def test_a_service_on_one_machine_answers_all_accounts_at_its_socket(tmp_path):
    place = SocketPlace(path=tmp_path / "made" / "gq.sock", account=os.geteuid())
    before = os.umask(0o077)
    try:
        for _ in range(2):  # the second time an earlier service has left its socket
            assert asyncio.run(answers_at(place))
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.path.parent.stat().st_mode) == 0o711
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o666


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # tornado leaves its socket open
@pytest.mark.parametrize(
    ("mode", "file", "sentence"),
    [(0o777, None, "other accounts can write in its folder"), (0o700, "x", "exists and is not a socket")],
)
def test_a_socket_that_others_could_replace_is_an_error_with_a_sentence(tmp_path, mode, file, sentence):
    place = SocketPlace(path=tmp_path / "gq.sock", account=os.geteuid())
    tmp_path.chmod(mode)
    if file is not None:
        place.path.write_text(file)
    with pytest.raises(AdminError, match=sentence):
        asyncio.run(answers_at(place))
    gc.collect()


def test_two_services_of_one_account_do_not_share_a_port(tmp_path):
    """Each would get half of the requests: the Hub has reserved the port so that its account may share it."""
    (listening,) = bind_sockets(0, "127.0.0.1", reuse_port=True)
    with listening:
        listener = Listener(
            url=f"http://127.0.0.1:{listening.getsockname()[1]}",
            prefix="/",
            authenticator=HubAuthenticator("http://hub", ""),
            socket=SocketPlace(path=tmp_path / "gq.sock", account=os.geteuid()),
        )

        async def listen():
            async with listener.serve(Standby("1.0", lambda: "starting")):
                pass

        with pytest.raises(AdminError, match="another program uses it"):
            asyncio.run(listen())

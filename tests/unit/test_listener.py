"""The address of the service."""

import asyncio
import gc
import socket

import pytest

from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.listener import Listener
from jupyter_gq.api.standby import Standby
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

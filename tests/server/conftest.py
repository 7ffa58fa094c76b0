"""A real Jupyter server with the extension, real kernels, and a service that is a small real web application.

pytest-jupyter runs coroutine tests by itself; this tier needs its own pytest call (asyncio stays in strict mode).
"""

import asyncio
import json

import pytest

from tests.patience import eventually
from tests.server.service import Service

pytest_plugins = ("pytest_jupyter.jupyter_server",)

USER = "ann"


@pytest.fixture
def kind_of_service():
    """Return the class of the service; a test parametrises it with another."""
    return Service


@pytest.fixture
def service(jp_asyncio_loop, kind_of_service):
    """Yield the running service."""
    service = kind_of_service()
    jp_asyncio_loop.run_until_complete(service.start())
    yield service
    jp_asyncio_loop.run_until_complete(service.stop())


@pytest.fixture
def on_hub(monkeypatch, service):
    """Set the variables of a server that was started by a spawner."""
    monkeypatch.setenv("JUPYTER_GQ_URL", service.url)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", service.token)
    monkeypatch.setenv("JUPYTER_GQ_SERVER", "gpu")
    monkeypatch.setenv("JUPYTERHUB_USER", USER)


@pytest.fixture
def jp_server_config(jp_environ, jp_kernel_dir):
    """Return a configuration with the extension on; kernels need no files of the machine."""
    spec = jp_kernel_dir / "python3"
    spec.mkdir()
    argv = ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python", "env": {"SEEN": "${HOME}"}})
    )
    return {
        "ServerApp": {"jpserver_extensions": {"jupyter_gq": True}, "allow_unauthenticated_access": False},
        "JupyterGQ": {"activity_interval": 1.0},
    }


@pytest.fixture
def extension(jp_serverapp):
    """Return the extension of the test's server."""
    return jp_serverapp.extension_manager.extension_points["jupyter_gq"].app


@pytest.fixture
def fetch(jp_fetch):
    """Return a function (method, path, body=None, **params) -> (status, JSON), which returns errors as answers too."""

    async def ask(method, *path, body=None, **params):
        response = await jp_fetch(
            "jupyter-gq",
            *path,
            method=method,
            body=None if body is None else json.dumps(body),
            params=params,
            allow_nonstandard_methods=True,
            raise_error=False,
        )
        return response.code, json.loads(response.body) if response.body else None

    return ask


@pytest.fixture
def leave_early(http_server_client, jp_base_url, jp_auth_header):
    """Return a function (method, path) that closes the connection of a request as soon as its answer has begun."""

    async def ask(method, *path):
        reader, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
        lines = [f"{method} {jp_base_url}jupyter-gq/{'/'.join(path)} HTTP/1.1", "Host: localhost", "Content-Length: 2"]
        lines += [f"{name}: {value}" for name, value in jp_auth_header.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n{}").encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return int(answer.split()[1])

    return ask


@pytest.fixture
def until():
    """Return the function that waits until a condition is true, and fails when its deadline is over."""
    return eventually

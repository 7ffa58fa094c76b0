"""A user of the Hub without a browser, who logs in, starts a server, runs cells, and sends a cell to training."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import ServiceEvent
from jupyter_gq.domain.errors import HttpRefusal, MachineError
from jupyter_gq.domain.json_types import JsonObject, JsonValue

#: Seconds within which each request is answered, also one for a connection to a kernel that is still starting.
_LONGEST_REQUEST = 120.0


class ProductRefused(HttpRefusal):
    """A refusal of the product; `status` is that of HTTP, and `message` is what the user reads."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class DemoCellFailed(MachineError):
    """A cell of the demo that raised an exception, or whose kernel ended."""


class Person:
    """A user of the Hub, who sends the requests that a browser and JupyterLab would send."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url.rstrip("/"), name
        self._http = httpx.AsyncClient(base_url=self.url, timeout=_LONGEST_REQUEST, follow_redirects=True)
        self._token = ""

    async def __aenter__(self) -> Self:
        await self._log_in()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    # --- the hub ------------------------------------------------------------------------------------------------

    async def options_page(self) -> str:
        """Return the page on which the user chooses a share, as HTML."""
        answer = await self._http.get(f"/hub/spawn/{self.name}")
        answer.raise_for_status()
        return answer.text

    async def start_server(self, gpus: str, server: str = "", within: float = 300) -> None:
        """Start a server with a share of `gpus` and wait until it is ready; raise `ProductRefused` if it is refused.

        Raises `TimeoutError` if it is not ready within `within` seconds.
        """
        answer = await self._hub("POST", self._server_path(server), {"user_options": {"gpus": gpus}})
        if answer.is_error:
            raise ProductRefused(answer.status_code, answer.json().get("message", answer.text))
        async with asyncio.timeout(within):
            while not (state := (await self.servers()).get(server)) or not state["ready"]:
                if state is None:
                    raise ProductRefused(409, f"The server of {self.name} is not starting any more.")
                await asyncio.sleep(0.2)

    async def stop_server(self, server: str = "") -> None:
        """Stop a server and wait until it has ended."""
        await self._hub("DELETE", self._server_path(server))
        while server in await self.servers():
            await asyncio.sleep(0.2)

    async def servers(self) -> dict[str, JsonObject]:
        """Return the user's servers as the Hub describes them, by name."""
        answer = await self._hub("GET", f"users/{self.name}")
        answer.raise_for_status()
        return dict(answer.json()["servers"])

    # --- the lab ------------------------------------------------------------------------------------------------

    async def ask_extension(self, method: str, path: str, body: JsonObject | None = None) -> JsonValue:
        """Send a request to the server extension, as JupyterLab does; return the answer's JSON, None if it is empty.

        Raises `ProductRefused` for an error.
        """
        answer = await self._lab(method, f"jupyter-gq/{path}", body)
        if answer.is_error:
            problem = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            raise ProductRefused(answer.status_code, problem.get("message", answer.text[:500]))
        return answer.json() if answer.content else None

    async def read_notebook(self, path: str) -> JsonObject:
        """Return the content of a notebook in this user's home."""
        answer = await self._lab("GET", f"api/contents/{path}?content=1&type=notebook")
        answer.raise_for_status()
        return dict(answer.json()["content"])

    async def start_kernel(self, path: str) -> str:
        """Open a session for the notebook at this path; return the id of its kernel."""
        body = {"path": path, "name": Path(path).name, "type": "notebook", "kernel": {"name": "python3"}}
        answer = await self._lab("POST", "api/sessions", body)
        answer.raise_for_status()
        return str(answer.json()["kernel"]["id"])

    async def interrupt_kernel(self, kernel: str) -> None:
        """Interrupt the cell that runs in a kernel."""
        (await self._lab("POST", f"api/kernels/{kernel}/interrupt")).raise_for_status()

    async def run_cell(self, kernel: str, code: str) -> str:
        """Execute code in a kernel; return the text that it printed. Raise `DemoCellFailed` if the code fails."""
        session = uuid.uuid4().hex
        address = f"{self.url}/user/{self.name}/api/kernels/{kernel}/channels?session_id={session}"
        request = HTTPRequest(
            address.replace("http", "ws", 1),
            headers=self._authorisation(),
            connect_timeout=_LONGEST_REQUEST,
            request_timeout=_LONGEST_REQUEST,
        )
        connection = await websocket_connect(request)
        message = _execute_request(session, code)
        try:
            await connection.write_message(json.dumps(message))
            return await _collect_output(connection, message["header"]["msg_id"])
        finally:
            connection.close()

    async def send(self, notebook: JsonObject, path: str, kernel: str, target: str, **options: str) -> JsonObject:
        """Send the code cell with the id `target` to training and return the job.

        The code cells before it are replayed first. Raises `ProductRefused` if the product refuses the job.
        """
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        before = code[: [cell["id"] for cell in code].index(target)]
        body = {
            "key": uuid.uuid4().hex,
            "notebook_path": path,
            "kernel_id": kernel,
            "mode": "replay",
            "notebook": notebook,
            "targets": [target],
            "prefix": [{"cell_id": cell["id"], "source": cell["source"], "seconds": None} for cell in before],
            **options,
        }
        return dict(await self.ask_extension("POST", "send", body))

    # --- the service, also while no server runs -------------------------------------------------------------------

    async def ask_service(self, method: str, path: str) -> JsonValue:
        """Send a request to the scheduler service directly; return the JSON of the answer.

        Raises `ProductRefused` for an error.
        """
        answer = await self._http.request(method, f"/services/jupyter-gq/api/v1/{path}", headers=self._authorisation())
        if answer.is_error:
            raise ProductRefused(answer.status_code, answer.text[:500])
        return answer.json()

    async def job(self, job: str) -> JsonObject:
        """Return a job of this user as the service describes it."""
        return dict(await self.ask_service("GET", f"jobs/{job}"))

    async def changes(self, on_open: Callable[[], None]) -> AsyncGenerator[ServiceEvent, None]:
        """Yield what the service tells this user's pages from now on, without an end; call `on_open` once it listens.

        Raises `ServiceError` if the connection is refused or lost. Close the generator (`aclose`).
        """
        client = ServiceClient(f"{self.url}/services/jupyter-gq/", self._token)
        try:
            async with contextlib.aclosing(client.events(on_open=on_open)) as events:
                async for event in events:
                    yield event
        finally:
            client.close()

    # --- inside -------------------------------------------------------------------------------------------------

    async def _log_in(self) -> None:
        """Log in to the Hub and request a token for the API; raise `ProductRefused` if the Hub refuses the user."""
        await self._http.get("/hub/login")
        answer = await self._http.post(
            "/hub/login",
            data={"username": self.name, "password": "demo", "_xsrf": self._xsrf()},
            follow_redirects=False,
        )
        if answer.status_code not in {200, 302}:
            raise ProductRefused(answer.status_code, f"The hub did not let {self.name} in.")
        await self._http.get("/hub/home")
        answer = await self._http.post(
            f"/hub/api/users/{self.name}/tokens",
            json={"note": "jupyter-gq demo"},
            headers={"X-XSRFToken": self._xsrf(), "Referer": f"{self.url}/hub/home"},
        )
        answer.raise_for_status()
        self._token = answer.json()["token"]

    def _xsrf(self) -> str:
        """Return the Hub's cookie against cross-site requests; "" if there is none."""
        for cookie in self._http.cookies.jar:
            if cookie.name == "_xsrf" and cookie.path.startswith("/hub"):
                return cookie.value or ""
        return ""

    def _authorisation(self) -> dict[str, str]:
        return {"Authorization": f"token {self._token}"}

    def _server_path(self, server: str) -> str:
        return f"users/{self.name}/" + (f"servers/{server}" if server else "server")

    async def _hub(self, method: str, path: str, body: JsonObject | None = None) -> httpx.Response:
        return await self._http.request(method, f"/hub/api/{path}", json=body, headers=self._authorisation())

    async def _lab(self, method: str, path: str, body: JsonObject | None = None) -> httpx.Response:
        return await self._http.request(method, f"/user/{self.name}/{path}", json=body, headers=self._authorisation())


def _execute_request(session: str, code: str) -> JsonObject:
    """Return a message of Jupyter's protocol that asks a kernel to execute code."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "username": "",
        "session": session,
        "version": "5.3",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,  # or the kernel may drop what is sent right after a cell that failed
    }
    return {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "buffers": [],
    }


async def _collect_output(connection: WebSocketClientConnection, message_id: str) -> str:
    """Read messages until the request `message_id` ends; return the text that its code printed.

    Raises `DemoCellFailed` if the code fails or the connection is closed.
    """
    printed: list[str] = []
    while True:
        raw = await connection.read_message()
        if raw is None:
            raise DemoCellFailed("The kernel's connection was closed.")
        message: JsonObject = {}
        with contextlib.suppress(ValueError):
            message = json.loads(raw)
        if message.get("parent_header", {}).get("msg_id") != message_id:
            continue
        content = message["content"]
        match message["header"]["msg_type"]:
            case "stream":
                printed.append(content["text"])
            case "error":
                raise DemoCellFailed(f"{content['ename']}: {content['evalue']}")
            case "status" if content["execution_state"] == "idle":
                return "".join(printed)

"""A Jupyter server at a Unix socket, as code in a kernel knows it: canned answers, and a record of what was asked."""

import http.server
import json
import socketserver
import threading
import urllib.parse
from pathlib import Path


class SocketServer:
    """A server with an answer for each method and path; a list of answers is given one after the other."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "s")
        self.answers: dict[tuple[str, str], object] = {}
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                target = urllib.parse.urlsplit(self.path)
                server.asked.append((self.command, self.path))
                size = int(self.headers.get("Content-Length") or 0)
                if size:
                    server.bodies.append(json.loads(self.rfile.read(size)))
                status, body = server.answer(self.command, target.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            do_POST = do_PATCH = do_DELETE = do_GET

            def address_string(self) -> str:
                return "kernel"

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = socketserver.ThreadingUnixStreamServer(self.path, Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, method: str, path: str) -> tuple[int, object]:
        found = self.answers.get((method, path), (404, {"code": "not_found", "message": "There is no such job."}))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

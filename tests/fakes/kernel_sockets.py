"""Jupyter servers as a kernel that waits for its share knows them, named by what goes wrong."""

import json
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from jupyter_gq.notebook.share_wait import NOTICE_FILE


class AnswersRequests:
    """A server that records the requests for the share and answers them."""

    #: What it answers: whether the scheduler service answers it.
    reachable = True

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kernels"
        self.notice = folder / NOTICE_FILE
        #: Method and path of each request.
        self.asked: list[tuple[str, str]] = []
        self._server = self._listen()

    def lend(self, sentence: str = "Lent to carol.", **fields: object) -> None:
        """Write the notice that the share is lent."""
        draft = self.notice.with_suffix(".new")
        draft.write_text(json.dumps({"sentence": sentence, "back_at": None, "timeout": 600, **fields}))
        draft.replace(self.notice)

    def give_back(self) -> None:
        """Remove the notice."""
        self.notice.unlink()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        body = json.dumps({"reachable": self.reachable}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _listen(self) -> socketserver.BaseServer | None:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.asked.append((self.command, self.path))
                fake.answer(self)

            def address_string(self) -> str:
                return "kernel"

            def log_message(self, *_: object) -> None:
                pass

        server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server


class NeverAnswers(AnswersRequests):
    """A server that accepts requests and hangs."""

    def __init__(self, folder: Path) -> None:
        self._ended = threading.Event()
        super().__init__(folder)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Keep the connection open until the end of the test."""
        self._ended.wait()

    def close(self) -> None:
        """End the server and all requests."""
        self._ended.set()
        super().close()


class HasASilentService(AnswersRequests):
    """A server that answers, and whose scheduler service accepts requests and hangs."""

    reachable = False


class IsGone(AnswersRequests):
    """A server that was killed: its folder is left, and nobody listens."""

    def _listen(self) -> None:
        return None


@contextmanager
def running(kind: type[AnswersRequests]) -> Iterator[AnswersRequests]:
    """Yield a server of this kind, in a folder of its own with a short path, as Unix sockets need it."""
    with tempfile.TemporaryDirectory(prefix="gq-") as folder:
        server = kind(Path(folder))
        try:
            yield server
        finally:
            server.close()

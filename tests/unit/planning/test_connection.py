"""The address of the service and the arguments of a command: what is wrong with them is one sentence."""

import socketserver
import threading

import pytest

from jupyter_gq.app import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drain", "--url", "ftp://hub.example.org"], "begins with https://"),
        (["audit", "--url", "file:///etc/passwd"], "begins with https://"),
        (["drain", "", "--url", "http://127.0.0.1:1"], "1 or more characters"),
        (["drain", "x" * 10_000, "--url", "http://127.0.0.1:1"], "at most"),
        (["snapshot", "--url", ""], "No service is named."),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(arguments, words, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "token")
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert "Traceback" not in told.err


def test_a_folder_in_which_nothing_can_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
        assert main(["demo", "--dir", str(folder)]) == 1
        assert f"the folder {folder} cannot be used" in capsys.readouterr().err


class _PlainHttp(socketserver.StreamRequestHandler):
    """A server without HTTPS, which refuses the first bytes of a TLS connection."""

    def handle(self):
        self.request.recv(1)
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_an_address_without_https_is_told_how_to_write_it(monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "token")
    with socketserver.TCPServer(("127.0.0.1", 0), _PlainHttp) as server:
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        assert main(["drain", "--url", f"127.0.0.1:{server.server_address[1]}"]) == 4
        server.shutdown()
    assert "If the Hub has no HTTPS, write its address with http://." in capsys.readouterr().err

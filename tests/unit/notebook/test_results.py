"""Results are loaded only if they are what the job saved, and this kernel can load them; else a sentence says why."""

import hashlib
import http.server
import json
import os
import pickle
import socketserver
import sys
import textwrap
import threading
import time
import urllib.parse
from pathlib import Path
from types import SimpleNamespace

import pytest

import jupyter_gq
from jupyter_gq.notebook import magics, server_socket
from jupyter_gq.notebook.handle import Job
from jupyter_gq.notebook.results import ResultError
from tests.patience import until

HERE = "{}.{}".format(*sys.version_info)


class Server:
    """A Jupyter server at a Unix socket, which has these results and counts the requests."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "s")
        self.answers: dict[str, object] = {}
        self.contents: dict[str, bytes] = {}
        self.asked: list[str] = []
        #: While it is not set, no request is answered.
        self.gate = threading.Event()
        self.gate.set()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.gate.wait()
                target = urllib.parse.urlsplit(self.path)
                query = urllib.parse.parse_qs(target.query)
                if "path" in query:
                    start = int(query["start"][0])
                    body = server.contents[query["path"][0]][start : start + 7]
                else:
                    body = json.dumps(server.answers.get(target.path, {"message": "No such job."})).encode()
                self.send_response(200 if "path" in query or target.path in server.answers else 404)
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "kernel"

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = socketserver.ThreadingUnixStreamServer(self.path, Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def has(self, job: str, python: str = HERE, **values: object) -> None:
        """Let this job have brought these values back; bytes are a pickle."""
        listed = []
        for name, value in values.items():
            content = value if isinstance(value, bytes) else pickle.dumps(value)
            self.contents[f"vars/{name}"] = content
            listed.append(
                {"name": name, "path": f"vars/{name}", "sha256": hashlib.sha256(content).hexdigest(), "reason": ""}
            )
        self.answers[f"/jobs/{job}/results"] = {"python": python, "variables": listed}

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = Server(tmp_path)
    monkeypatch.setenv("JUPYTER_GQ_SOCKET", server.path)
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    yield server
    server.close()


def test_a_value_comes_back_by_name_and_all_values_as_a_dict(server: Server) -> None:
    server.has("job-1", model=[1, 2, 3], loss=0.5)
    assert jupyter_gq.result("job-1", "model") == [1, 2, 3]
    assert jupyter_gq.result("job-1") == {"model": [1, 2, 3], "loss": 0.5}


def test_a_handle_names_its_job(server: Server) -> None:
    server.has("job-1", loss=0.5)
    assert jupyter_gq.result(Job(None, {"id": "job-1"}), "loss") == 0.5


@pytest.mark.parametrize("job", [None, "", 7, ["job-1"]])
def test_what_is_no_job_is_refused_with_a_sentence(server: Server, job: object) -> None:
    with pytest.raises(ResultError, match=r'is not a job\. Give its id, such as "job-4f1c"'):
        jupyter_gq.result(job)
    assert server.asked == []


def test_bytes_that_are_not_those_of_the_job_are_never_unpickled(server: Server) -> None:
    server.has("job-1", model=1)
    server.contents["vars/model"] = pickle.dumps(Explodes())
    with pytest.raises(ResultError, match="not those that job-1 has saved"):
        jupyter_gq.result("job-1", "model")


def test_another_python_is_refused_before_anything_is_fetched(server: Server) -> None:
    server.has("job-1", python="3.9", model=Explodes())
    with pytest.raises(ResultError, match=r"made by Python 3\.9, and this kernel has Python " + HERE):
        jupyter_gq.result("job-1", "model")
    assert len(server.asked) == 1


def test_a_missing_package_is_named(server: Server) -> None:
    server.has("job-1", model=b"cno_such_package\nThing\n.")
    with pytest.raises(ResultError, match="lacks a package that the job had: no_such_package"):
        jupyter_gq.result("job-1", "model")


def test_names_that_did_not_come_back_say_why(server: Server) -> None:
    server.has("job-1", loss=1)
    server.answers["/jobs/job-1/results"]["variables"].append({"name": "lock", "reason": "It cannot be pickled: no."})
    with pytest.raises(ResultError, match="It cannot be pickled: no"):
        jupyter_gq.result("job-1", "lock")
    with pytest.raises(ResultError, match=r"has brought no variable 'model' back\. It has brought back: loss\."):
        jupyter_gq.result("job-1", "model")
    with pytest.raises(ResultError, match="No such job"):
        jupyter_gq.result("job-2")


def test_without_a_server_the_kernel_says_where_to_go(monkeypatch) -> None:
    monkeypatch.delenv("JUPYTER_GQ_SOCKET", raising=False)
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    with pytest.raises(ResultError, match="Open the notebook there"):
        jupyter_gq.result("job-1")


def test_a_server_that_is_gone_is_a_sentence(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    monkeypatch.setenv("JUPYTER_GQ_SOCKET", str(tmp_path / "gone"))
    with pytest.raises(ResultError, match="does not answer"):
        jupyter_gq.result("job-1")


def test_a_job_reads_the_results_of_another_job_from_its_folder(tmp_path, monkeypatch) -> None:
    content = pickle.dumps("trained")
    other = tmp_path / "jobs" / "job-1"
    (other / "results" / "vars").mkdir(parents=True)
    (other / "results" / "vars" / "0.pickle").write_bytes(content)
    entry = {"name": "model", "path": "vars/0.pickle", "sha256": hashlib.sha256(content).hexdigest(), "reason": ""}
    (other / "results.json").write_text(json.dumps({"python": HERE, "variables": [entry]}))
    monkeypatch.setenv("GQ_RUN_DIR", str(tmp_path / "jobs" / "job-2" / "runs" / "1" / "0"))
    assert jupyter_gq.result("job-1", "model") == "trained"
    with pytest.raises(ResultError, match="only on the same machine"):
        jupyter_gq.result("job-3", "model")


def test_tensors_of_a_gpu_come_into_main_memory_where_there_is_no_gpu(server, tmp_path, monkeypatch) -> None:
    """A stand-in for PyTorch: its storages are pickled by this function, and loading one needs a GPU."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        textwrap.dedent("""
            class cuda:
                is_available = staticmethod(lambda: False)
            def load(file, map_location=None, weights_only=True):
                return (file.read(), map_location, weights_only)
        """)
    )
    (tmp_path / "torch" / "storage.py").write_text(
        "def _load_from_bytes(content):\n    raise RuntimeError('no CUDA')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    server.has("job-1", model=b"\x80\x03ctorch.storage\n_load_from_bytes\nC\x03abc\x85R.")
    assert jupyter_gq.result("job-1", "model") == (b"abc", "cpu", False)


class Shell:
    """IPython's shell, as far as the extension uses it."""

    def __init__(self) -> None:
        self.magics, self.pushed = {}, {}
        self.events = SimpleNamespace(register=lambda event, call: self.__setattr__(event, call))

    def register_magic_function(self, function, magic_kind, magic_name) -> None:
        self.magics[magic_name] = function

    def push(self, variables) -> None:
        self.pushed |= variables


def test_the_magic_assigns_and_says_what(server: Server, capsys) -> None:
    server.has("job-1", model=[1], loss=0.5)
    shell = Shell()
    jupyter_gq.load_ipython_extension(shell)
    shell.magics["gq_load"]("job-1 model")
    assert shell.pushed == {"model": [1]}
    assert capsys.readouterr().out == "Loaded model (list)\n"
    with pytest.raises(Exception, match="Usage: %gq_load"):
        shell.magics["gq_load"]("")
    with pytest.raises(Exception, match="No such job"):
        shell.magics["gq_load"]("job-2")


@pytest.mark.parametrize("line", ["job-1", "job-1 model lost loss"])
def test_the_magic_assigns_what_can_be_loaded_and_gives_the_reason_for_each_other_name(
    server: Server, capsys, line
) -> None:
    server.has("job-1", model=[1], lost=b"no pickle", loss=0.5)
    shell = Shell()
    jupyter_gq.load_ipython_extension(shell)
    with pytest.raises(Exception, match="lost cannot be loaded here"):
        shell.magics["gq_load"](line)
    assert shell.pushed == {"model": [1], "loss": 0.5}
    assert capsys.readouterr().out == "Loaded model (list), loss (float)\n"


def test_the_newest_job_is_named_last_and_the_magic_says_which_it_was(server: Server, capsys) -> None:
    server.has("job-2", model=[1])
    server.answers["/jobs/last"] = {"id": "job-2"}
    assert jupyter_gq.result("last", "model") == [1]
    shell = Shell()
    jupyter_gq.load_ipython_extension(shell)
    shell.magics["gq_load"]("last model")
    assert shell.pushed == {"model": [1]}
    assert capsys.readouterr().out == "Loaded model (list) from job-2\n"
    del server.answers["/jobs/last"]
    with pytest.raises(ResultError, match="No such job"):
        jupyter_gq.result("last")


def test_in_a_job_last_is_refused_since_it_could_name_another_job_than_in_the_notebook(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GQ_RUN_DIR", str(tmp_path / "jobs" / "job-2" / "runs" / "1" / "0"))
    with pytest.raises(ResultError, match=r"give the id of the other job"):
        jupyter_gq.result("last")


@pytest.mark.parametrize(
    ("targets", "prefix", "said"),
    [
        (["call"], ["setup-1"], "What the function returned was"),
        (["c7"], [], "returned was"),
        (["call"], [], "returned was"),
    ],
    ids=["function", "cell", "cell of a console"],
)
def test_only_of_a_function_the_reason_speaks_of_what_it_returned(server: Server, targets, prefix, said) -> None:
    server.has("job-1")
    server.answers["/jobs/job-1/results"]["variables"].append({"name": "returned", "reason": "It is a lock."})
    cells = {"targets": [{"cell_id": cell} for cell in targets], "prefix": [{"cell_id": cell} for cell in prefix]}
    server.answers["/jobs/job-1"] = {"id": "job-1", **cells}
    with pytest.raises(ResultError, match=rf"^{said} not brought back by job-1\. It is a lock\."):
        jupyter_gq.result("job-1", "returned")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "The job 'train' has brought model back. Load it with: %gq_load job-1 model\n"),
        (
            {"newer": {"title": "again", "phase": "running"}},
            "The job 'train' has brought model back. Load it with: %gq_load job-1 model\n"
            "The newer job 'again' brings model back when it is done; it is running now.\n",
        ),
        (
            {"job": "", "title": "", "newer": {"title": "again", "phase": "paused"}},
            "The job 'again' brings model back when it is done; it is paused now.\n",
        ),
        ({"reason": "It is a lock."}, "The job 'train' could not bring model back. It is a lock.\n"),
    ],
)
def test_a_missing_name_is_said_to_be_in_an_older_job_and_to_come_from_a_newer_one(found, said) -> None:
    assert (
        magics.describe_hint("model", {"job": "job-1", "title": "train", "reason": "", "newer": None, **found}) == said
    )


def test_a_name_error_says_which_job_has_the_name(server: Server, capsys) -> None:
    server.answers["/names/model"] = {"job": "job-1", "title": "train"}
    try:
        model  # noqa: B018
    except NameError as error:
        magics.hint_at_job(SimpleNamespace(error_in_exec=error))
    assert capsys.readouterr().err == "The job 'train' has brought model back. Load it with: %gq_load job-1 model\n"
    magics.hint_at_job(SimpleNamespace(error_in_exec=NameError("name 'other' is not defined", name="other")))
    magics.hint_at_job(SimpleNamespace(error_in_exec=NameError(5)))
    magics.hint_at_job(SimpleNamespace(error_in_exec=NameError("no text", name=5)))
    magics.hint_at_job(SimpleNamespace(error_in_exec=ValueError()))
    magics.hint_at_job(SimpleNamespace(error_in_exec=None))
    assert capsys.readouterr().err == ""
    assert server.asked == ["/names/model", "/names/other"]


def test_an_answer_that_does_not_come_in_time_is_no_hint(server: Server, monkeypatch, capsys) -> None:
    monkeypatch.setattr(magics, "HINT_TIMEOUT", 0.05)
    server.answers["/names/model"] = {"job": "job-1", "title": "train"}
    server.gate.clear()
    began = time.perf_counter()
    magics.hint_at_job(SimpleNamespace(error_in_exec=NameError("name 'model' is not defined", name="model")))
    assert time.perf_counter() - began < server_socket.TIMEOUT / 2
    until(lambda: server.asked, "the question")  # the server may see it later than the kernel gives up
    assert (server.asked, capsys.readouterr().err) == (["/names/model"], "")


class Explodes:
    """A value whose loading ends the test."""

    def __reduce__(self):
        return os._exit, (77,)

"""What a pod sends of its results, whatever user code has done to the list and to the files."""

import base64
import json
import os

import pytest

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.pod.results import ResultsUpload
from jupyter_gq.runner.pod.service import RequestRefused

VARIABLE = {"name": "model", "type": "", "bytes": 3, "sha256": "0" * 64, "path": "vars/0.pickle", "reason": ""}


class TakesResults:
    """A service that keeps what it is sent; parts of the content `refused` it refuses."""

    def __init__(self, refused=b""):
        self.requests, self.report, self._refused = [], None, refused

    def put_parts(self, contents):
        parts = [base64.b64decode(content) for content in contents]
        if self._refused and self._refused in parts:
            raise RequestRefused(429, "No room is left.")
        self.requests.append(parts)

    def put_results(self, report):
        self.report = json.loads(json.dumps(report))

    @property
    def reasons(self):
        return {file["path"]: file["reason"] for file in self.report["results"]["files"] if file.get("reason")}


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(job=tmp_path, run=1, task=0)
    (made.results / "vars").mkdir(parents=True)
    (made.results / "files").mkdir()
    return made


def write(folder, files, variables=(), record=None):
    for path, content in files.items():
        (folder.results / path).write_bytes(content)
    listed = [{"path": path.removeprefix("files/"), "bytes": 1} for path in files if path.startswith("files/")]
    document = {"python": "3.12", "variables": list(variables), "files": listed, "omitted_files": 0}
    folder.results_record.write_text(json.dumps(document if record is None else record))


def send(service, folder, limit=10**9, seconds_left=lambda: 1.0):
    ResultsUpload(service, limit, seconds_left).send(folder)
    return service


def test_a_job_without_results_sends_nothing(folder):
    assert send(TakesResults(), folder).report is None


def test_small_contents_share_a_request_and_large_ones_are_cut_into_parts(folder):
    large = bytes(PART_SIZE) + b"end"
    write(folder, {"vars/0.pickle": b"123", "files/a": b"1", "files/b": b"", "files/c": large}, [VARIABLE])
    service = send(TakesResults(), folder)
    assert service.requests == [[b"123", b"1"], [bytes(PART_SIZE)], [b"end"]]
    sizes = [(content["path"], content["bytes"], len(content["parts"])) for content in service.report["contents"]]
    assert sizes == [("vars/0.pickle", 3, 1), ("files/a", 1, 1), ("files/b", 0, 0), ("files/c", len(large), 2)]


def test_variables_take_the_room_first(folder):
    write(folder, {"vars/0.pickle": b"123", "files/a": b"12", "files/b": b"1"}, [VARIABLE])
    service = send(TakesResults(), folder, limit=4)
    assert list(service.reasons) == ["a"]
    assert [content["path"] for content in service.report["contents"]] == ["vars/0.pickle", "files/b"]


def test_what_the_service_refuses_stays_in_the_list_with_its_sentence(folder):
    write(folder, {"vars/0.pickle": b"123", "files/a": bytes(PART_SIZE), "files/b": b"1"}, [VARIABLE])
    service = send(TakesResults(refused=b"123"), folder)
    (variable,) = service.report["results"]["variables"]
    assert (variable["bytes"], variable["reason"]) == (None, "No room is left.")
    assert [content["path"] for content in service.report["contents"]] == ["files/a", "files/b"]


def test_without_time_only_the_list_is_sent(folder):
    write(folder, {"files/a": b"1"})
    service = send(TakesResults(), folder, seconds_left=lambda: 0.0)
    assert service.reasons == {"a": "There was no time left to send it."}
    assert service.requests == []


def test_links_pipes_and_paths_out_of_the_folder_are_not_sent(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    write(folder, {"files/good": b"1"})
    (folder.results / "files/link").symlink_to(tmp_path / "secret")
    os.mkfifo(folder.results / "files/pipe")
    record = json.loads(folder.results_record.read_text())
    record["files"] += [{"path": path, "bytes": 6} for path in ("link", "pipe", "../../secret", "/etc/passwd")]
    write(folder, {"files/good": b"1"}, record=record)
    service = send(TakesResults(), folder)
    assert list(service.reasons) == ["link", "pipe", "../../secret", "/etc/passwd"]
    assert service.requests == [[b"1"]]


def test_nothing_is_sent_of_a_place_that_a_link_leads_to_instead_of_the_results(folder, tmp_path):
    write(folder, {"files/private": b"1"})
    folder.results.rename(tmp_path / "elsewhere")
    folder.results.symlink_to(tmp_path / "elsewhere")
    service = send(TakesResults(), folder)
    assert list(service.reasons) == ["private"]
    assert service.requests == []


@pytest.mark.parametrize("record", [[], {}, {"variables": 5, "files": []}, {"variables": [{}], "files": []}], ids=str)
def test_a_list_of_another_form_is_refused(folder, record):
    write(folder, {}, record=record)
    with pytest.raises(UnusableFile):
        send(TakesResults(), folder)

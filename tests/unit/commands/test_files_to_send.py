"""The bundle of a file: what runs, in which kernel and folder, and which files are refused before anything is sent."""

import argparse
import json
import os
import sys

import pytest

from jupyter_gq.client.models import JobFields
from jupyter_gq.commands.files_to_send import FileToSend, read_file
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.job_names import find_origin
from jupyter_gq.notebook.durations import parse_duration


def cell(source, cell_id, kind="code"):
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source, "outputs": [], "execution_count": 1}


def notebook(*cells, **metadata):
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)})


def make_file_bundle(file):
    return read_file(file).make_bundle()


@pytest.fixture
def file(tmp_path):
    def write(name, content, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return FileToSend(path=path, **options)

    return write


def test_all_code_cells_of_a_notebook_run_in_order_in_the_kernel_that_it_names(file, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("MY_SECRET", "x")
    cells = [cell("x = 1", "one"), cell("# text", "two", "markdown"), cell(" \n", "none"), cell("x", "three")]
    bundle = make_file_bundle(file("a.ipynb", notebook(*cells, kernelspec={"name": "python3"})))
    assert [each.cell_id for each in bundle.manifest.targets] == ["one", "three"]
    assert [each["source"] for each in bundle.notebook["cells"]] == ["x = 1", "x"]
    manifest = bundle.manifest
    assert (manifest.mode, manifest.cwd, manifest.notebook_path) == ("notebook", str(tmp_path), "a.ipynb")
    assert (manifest.kernel.name, manifest.kernel.argv[0]) == ("python3", sys.executable)
    assert manifest.environment["MPLBACKEND"] == "agg"
    assert "MY_SECRET" not in manifest.environment


def test_a_script_runs_as_one_cell_that_finds_its_path_and_arguments(file, tmp_path, monkeypatch):
    code = "import sys\nfound = [__file__, sys.argv]\n"
    bundle = make_file_bundle(file("train.py", code, arguments=("--epochs", "it's 4")))
    before, script = (each["source"] for each in bundle.notebook["cells"])
    assert script == code
    targets, prefix = ([c.cell_id for c in cells] for cells in (bundle.manifest.targets, bundle.manifest.prefix))
    assert find_origin(targets, prefix) == "script"
    monkeypatch.setattr(sys, "argv", ["of the test"])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(before, "before", "exec"), names)
    exec(compile(script, "script", "exec"), names)
    path = str(tmp_path / "train.py")
    assert names["found"] == [path, [path, "--epochs", "it's 4"]]


def test_variables_that_the_job_brings_back_are_named(file):
    assert make_file_bundle(file("train.py", "model = 1", returns=("model", "loss"))).manifest.returns == [
        "model",
        "loss",
    ]
    with pytest.raises(CommandRefused, match=r"train\.py: 'a\.b' is not the name of a variable"):
        make_file_bundle(file("train.py", "model = 1", returns=("a.b",)))


def test_a_path_below_the_root_of_the_server_is_relative_to_it(file, tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    monkeypatch.setenv("JUPYTER_SERVER_ROOT", str(tmp_path))
    monkeypatch.setenv("JUPYTER_GQ_SERVER", "second")
    manifest = make_file_bundle(file("deep/a.py", "1")).manifest
    assert (manifest.notebook_path, manifest.server) == ("deep/a.py", "second")
    monkeypatch.setenv("JUPYTER_SERVER_ROOT", "/elsewhere")
    assert make_file_bundle(file("deep/a.py", "1")).manifest.notebook_path == "a.py"


@pytest.fixture
def _more_kernels(tmp_path, monkeypatch):
    """Beside python3, this machine has another kernel of Python and one of R."""
    for name, language in (("py-other", "python"), ("ir", "R")):
        folder = tmp_path / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        spec = {"argv": [sys.executable, "-m", name], "display_name": name, "language": language}
        (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))


@pytest.mark.usefixtures("_more_kernels")
def test_the_software_is_another_kernel_that_is_installed_here(file, monkeypatch):
    monkeypatch.setenv("PATH", "/here")
    sent = file("a.py", "1", software="py-other")
    assert not sent.needs_image
    manifest = make_file_bundle(sent).manifest
    assert (manifest.kernel.name, manifest.kernel.argv) == ("py-other", [sys.executable, "-m", "py-other"])
    assert manifest.environment["PATH"] == "/here"


@pytest.mark.usefixtures("_more_kernels")
def test_the_software_is_an_image_that_is_offered(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/here")
    monkeypatch.setenv("MPLBACKEND", "agg")
    sent = file("a.py", "1", software="PyTorch 2.9", images=("PyTorch 2.9",))
    assert sent.needs_image
    manifest = make_file_bundle(sent).manifest
    assert (manifest.kernel.name, manifest.kernel.argv[:2]) == ("python3", ["python3", "-m"])
    assert manifest.kernel.resource_dir == ""
    assert (manifest.environment["MPLBACKEND"], "PATH" in manifest.environment) == ("agg", False)
    assert manifest.cwd == str(tmp_path)


@pytest.mark.usefixtures("_more_kernels")
@pytest.mark.parametrize(
    ("options", "metadata", "sentence"),
    [
        ({"software": "torch"}, {}, "no software 'torch' here. Offered are: .*py-other.*, JAX"),
        ({"software": "py-other", "folder": "/there"}, {}, "no software 'py-other' here. Offered are: JAX"),
        ({"software": "ir"}, {}, "a.ipynb needs python, and the kernel 'ir' has another language"),
        ({"software": "JAX"}, {"kernelspec": {"name": "ir", "language": "R"}}, "With another image, only Python"),
    ],
)
def test_other_software_that_cannot_run_the_file_is_refused(file, options, metadata, sentence):
    sent = file("a.ipynb", notebook(cell("1", "a"), **metadata), images=("JAX",), **options)
    with pytest.raises(CommandRefused, match=sentence):
        make_file_bundle(sent)


@pytest.fixture
def _odd_kernels(tmp_path, monkeypatch):
    """This machine has kernelspecs that cannot be used, and one in a folder with an unusual name."""
    usable = {"argv": [sys.executable], "display_name": "Größe", "language": "python"}
    specs = {
        "no-json": "{no json",
        "a-list": "[1]",
        "argv-text": json.dumps({**usable, "argv": 3}),
        "no-command": json.dumps({**usable, "argv": []}),
        "empty-command": json.dumps({**usable, "argv": ["", "{connection_file}"]}),
        "no-language": json.dumps({"argv": [sys.executable]}),
        "größe": json.dumps(usable),
    }
    for name, text in specs.items():
        folder = tmp_path / "jupyter" / "kernels" / name
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(text)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))


@pytest.mark.usefixtures("_odd_kernels")
@pytest.mark.parametrize("option", ["kernel", "software"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no-json", "it is no kernelspec in JSON"),
        ("a-list", "it is no kernelspec in JSON"),
        ("argv-text", "it is no kernelspec in JSON"),
        ("no-command", "it names no command"),
        ("empty-command", "it names no command"),
    ],
)
def test_a_kernel_whose_file_is_broken_is_refused_for_that(file, option, name, why):
    with pytest.raises(CommandRefused, match=f"kernel.json of the kernel '{name}' cannot be used: {why}"):
        make_file_bundle(file("a.py", "1", **{option: name}))


@pytest.mark.usefixtures("_odd_kernels")
def test_a_kernel_that_does_not_say_its_language_is_refused_for_that(file):
    with pytest.raises(CommandRefused, match="the kernel 'no-language' does not say its language"):
        make_file_bundle(file("a.py", "1", software="no-language"))


@pytest.mark.usefixtures("_odd_kernels")
def test_unusual_names_of_kernelspecs_cause_no_warnings(file, recwarn):
    for software in ("", "größe"):
        make_file_bundle(file("a.py", "1", software=software))
    with pytest.raises(CommandRefused, match=r"no software 'torch' here\. Offered are: .*größe"):
        make_file_bundle(file("a.py", "1", software="torch"))
    assert [str(each.message) for each in recwarn] == []


def test_with_a_folder_elsewhere_nothing_of_this_machine_goes_along(file):
    sent = file("a.py", "1", folder="/home/ann/project")
    bundle = make_file_bundle(sent)
    manifest = bundle.manifest
    assert (manifest.cwd, manifest.environment, manifest.kernel.argv[0]) == ("/home/ann/project", {}, "python3")
    assert str(sent.path.parent) not in json.dumps(bundle.notebook)


def test_a_notebook_that_was_cut_anywhere_is_told_as_cut(file):
    values = [None, True, False, float("nan"), -float("inf"), -1.5, "é\U0001f600\n"]
    whole = json.dumps({"nbformat": 4, "metadata": {"kept": values}, "cells": [{"source": ["1"]}]})
    whole = whole.replace("-1.5", "[-1.5e-10, 2E+7]")
    for end in range(1, len(whole)):
        with pytest.raises(CommandRefused, match="is not a whole notebook: it is cut off in line 1"):
            make_file_bundle(file("a.ipynb", whole[:end]))


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("a.py", "x = (", {}, "a.py: The script would fail at once, so it was not sent. Syntax error: '(' was never"),
        (
            "a.py",
            "import jupyter_gq\njupyter_gq.submit(print)",
            {},
            "a.py: The script sends jobs or needs such a job, and a job cannot send jobs. Put these statements below "
            "`if not jupyter_gq.in_job():`.",
        ),
        (
            "a.ipynb",
            notebook(cell("import jupyter_gq\njupyter_gq.submit(print)", "script"), cell("1", "b")),
            {},
            "Cell 1 sends jobs",
        ),
        ("a.py", "# nothing\n", {}, "The script has only comments"),
        ("a.py", b"\xff", {}, "is not UTF-8 text"),
        ("a.txt", "x", {}, "is neither a notebook"),
        ("a.ipynb", "", {}, "a.ipynb is not a notebook: it is empty."),
        ("a.ipynb", "{", {}, "a.ipynb is not a whole notebook: it is cut off in line 1."),
        ("a.ipynb", '{"cells": [\n{"source": "x = 1', {}, "it is cut off in line 2."),
        ("a.ipynb", '{"cells": [\n  oops]}\n', {}, "a.ipynb is not a notebook: it is not JSON (line 2, column 3)."),
        ("a.ipynb", '{"cells": null', {}, "a.ipynb is not a whole notebook: it is cut off in line 1."),
        ("a.ipynb", '{"cells": nope', {}, "a.ipynb is not a notebook: it is not JSON (line 1, column 11)."),
        ("a.ipynb", '{"cells": nul]', {}, "a.ipynb is not a notebook: it is not JSON (line 1, column 11)."),
        ("a.ipynb", '{"cells": "a"e', {}, "a.ipynb is not a notebook: it is not JSON (line 1, column 14)."),
        ("a.ipynb", '{"cells": "\\uxyz', {}, "a.ipynb is not a notebook: it is not JSON (line 1, column 13)."),
        ("a.ipynb", "[" * 100_000, {}, "it is not JSON."),
        ("a.ipynb", "[]", {}, "it is not a JSON object"),
        ("a.ipynb", "{}", {}, "a.ipynb: This is not a notebook: it has no list of cells."),
        ("a.ipynb", '{"nbformat": 3, "worksheets": []}', {}, "has the old format nbformat 3. Open it in JupyterLab"),
        ("a.ipynb", '{"nbformat": 4, "cells": [1]}', {}, "is damaged: its cell 1 is no object"),
        ("a.ipynb", notebook(cell("", "a")), {}, "no code cell to run"),
        ("a.ipynb", notebook(cell("1", "a")), {"arguments": ("x",)}, "takes no arguments"),
        ("a.ipynb", notebook(cell("1", "a"), kernelspec={"name": "nope"}), {}, "kernel 'nope' is not installed"),
        ("a.ipynb", notebook(cell("1", "a"), kernelspec=3), {"kernel": "nope"}, "kernel 'nope' is not installed"),
        ("a.py", "1", {"folder": "relative"}, "an absolute path was expected"),
        (
            "a.ipynb",
            notebook(cell("1", "a"), kernelspec={"name": "ir", "language": "R"}),
            {"folder": "/x"},
            "only Python can be sent",
        ),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(file, name, content, options, sentence):
    with pytest.raises(CommandRefused) as refusal:
        make_file_bundle(file(name, content, **options))
    assert sentence in str(refusal.value)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_would_never_be_read_to_its_end_is_refused(tmp_path, plant):
    plant(tmp_path / "a.py")
    with pytest.raises(CommandRefused, match=r"a\.py is no regular file"):
        make_file_bundle(FileToSend(path=tmp_path / "a.py"))


@pytest.mark.parametrize("path", ["a\nb.py", "new\tfolder/a.py"])
def test_a_path_with_control_characters_is_refused_in_one_line(tmp_path, path):
    script = tmp_path / path
    script.parent.mkdir(exist_ok=True)
    script.write_text("1")
    with pytest.raises(CommandRefused) as refusal:
        make_file_bundle(FileToSend(path=script))
    assert str(refusal.value) == f"The path {str(script)!r} has control characters. Rename the file or its folder."


def test_a_path_with_spaces_of_another_script_is_sent(tmp_path):
    script = tmp_path / "my\u3000work\u00a0\N{WOMAN}\u200d\N{MICROSCOPE}" / "a.py"
    script.parent.mkdir()
    script.write_text("1")
    assert make_file_bundle(FileToSend(path=script)).manifest.cwd == str(script.parent)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(CommandRefused, match="has more than 128 MiB"):
        make_file_bundle(FileToSend(path=tmp_path / "a.py"))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CommandRefused, match=r"none\.py cannot be read: No such file"):
        make_file_bundle(FileToSend(path=tmp_path / "none.py"))


def test_named_variables_go_along_with_the_usual_ones_and_those_that_are_read(file, monkeypatch):
    for name, value in {"EPOCHS": "3", "COLOUR": "blue", "LC_TIME": "C", "HTTPS_PROXY": "http://proxy:1"}.items():
        monkeypatch.setenv(name, value)
    source = 'import os\nos.environ["EPOCHS"]'
    sent = make_file_bundle(file("a.py", source, variables=("COLOUR", "SIZE=3=x"))).manifest.environment
    assert (sent["EPOCHS"], sent["LC_TIME"], sent["HTTPS_PROXY"]) == ("3", "C", "http://proxy:1")
    assert (sent["COLOUR"], sent["SIZE"]) == ("blue", "3=x")
    elsewhere = make_file_bundle(file("a.py", source, folder="/home/ann", variables=("SIZE=3",)))
    assert elsewhere.manifest.environment == {"SIZE": "3"}


def test_a_memory_limit_that_is_written_goes_along_also_from_a_server_with_a_share(file, monkeypatch):
    for name, value in {"JUPYTER_GQ_MEMORY_FRACTION": "0.2", "CUPY_GPU_MEMORY_LIMIT": "9"}.items():
        monkeypatch.setenv(name, value)
    sent = make_file_bundle(file("a.py", "1", variables=("CUPY_GPU_MEMORY_LIMIT=10%",))).manifest.environment
    assert sent["CUPY_GPU_MEMORY_LIMIT"] == "10%"
    with pytest.raises(CommandRefused, match="the job's own share sets it"):
        make_file_bundle(file("a.py", "1", variables=("CUPY_GPU_MEMORY_LIMIT",)))


@pytest.mark.parametrize(
    ("variable", "sentence"), [("HF_TOKEN=x", "looks like a secret"), ("GONE", "has no variable"), ("=x", "NAME=VALUE")]
)
def test_a_variable_that_cannot_be_sent_is_refused(file, variable, sentence):
    with pytest.raises(CommandRefused, match=sentence):
        make_file_bundle(file("a.py", "1", variables=(variable,)))


def test_lengths_of_time():
    assert [parse_duration(text) for text in ("90", "90s", "1.5m", "12h", "2d")] == [90, 90, 90, 43_200, 172_800]


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("2 hours", 7200), ("1 d 1 h 50 min", 93_000)])
def test_lengths_of_time_may_be_written_as_in_the_dialog(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9000d", "9000d is too long; expected at most 3660d"),
        ("87841h", "87841h is too long; expected at most 3660d"),
        ("0.5s", "0.5s is too short; expected at least 1s"),
        ("0h", "0h is too short; expected at least 1s"),
        ("soon", "'soon' is no length of time; expected one such as 90m, 1h30m or 2d"),
        ("٣s", "'٣s' is no length of time; expected one such as 90m, 1h30m or 2d"),
        ("2 hourss", "'2 hourss' is no length of time; expected one such as 90m, 1h30m or 2d"),
        ("1h, 2m", "'1h, 2m' is no length of time; expected one such as 90m, 1h30m or 2d"),
    ],
)
def test_a_length_of_time_that_no_job_can_have_is_refused_as_it_was_written(text, why):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        parse_duration(text)
    assert str(refused.value) == why


def test_the_longest_time_is_one_that_the_service_takes():
    assert JobFields(queue="vision", max_seconds=parse_duration("3660d"), expected_seconds=parse_duration("1s"))

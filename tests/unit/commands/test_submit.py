"""`jupyter-gq submit`: what it refuses before it asks the service."""

import pytest

from jupyter_gq.app import main


@pytest.fixture
def submit(tmp_path, monkeypatch, capsys):
    """Send a script to a service on this machine that does not answer."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "secret")
    script = tmp_path / "a.py"
    script.write_text("1")

    def run(*options, url="http+unix://%2Fnowhere%2Fgq.sock"):
        code = main(["submit", str(script), "--queue", "vision", "--url", url, *options])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("there", ["/nope", "script"])
def test_a_working_folder_that_is_not_on_the_machine_of_the_job_is_refused(submit, tmp_path, there):
    code, told = submit("--folder", str(tmp_path / "a.py") if there == "script" else there)
    assert code == 2
    assert "--folder: there is no folder" in told
    assert "leave the option out" in told


def test_a_folder_on_this_machine_or_on_another_one_is_sent(submit, tmp_path):
    assert "does not answer" in submit("--no-wait", "--folder", str(tmp_path))[1]
    assert "--folder" not in submit("--no-wait", "--folder", "/nope", url="http://127.0.0.1:9/services/jupyter-gq")[1]


@pytest.mark.parametrize("folder", ["", "work", "~/work"])
def test_a_working_folder_without_its_full_path_is_refused(submit, folder):
    code, told = submit("--folder", folder, url="http://127.0.0.1:9/services/jupyter-gq")
    assert code == 2
    assert f"--folder: {folder!r} is not the full path of a folder. Write one such as /home/ann/work" in told


def test_a_missing_file_is_named_alone(capsys):
    with pytest.raises(SystemExit):
        main(["submit"])
    assert "the following arguments are required: FILE\n" in capsys.readouterr().err

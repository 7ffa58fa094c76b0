"""The variables of a kernelspec are read on the machine of the job."""

import json

from jupyter_gq.runner.files.kernelspec import read_spec_variables


def write_spec(folder, env):
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({"argv": [], "env": env}))


def test_its_own_folder_comes_first_and_only_wanted_names_are_read(tmp_path):
    write_spec(tmp_path / "own", {"A": "1", "HF_TOKEN": "t", "B": 2})
    write_spec(tmp_path / "home/.local/share/jupyter/kernels/k", {"A": "other"})
    home = {"HOME": str(tmp_path / "home")}
    assert read_spec_variables("k", str(tmp_path / "own"), ["A", "B", "GONE"], home) == ({"A": "1", "B": "2"}, ["GONE"])


def test_in_another_place_the_kernelspec_is_found_by_its_name(tmp_path):
    write_spec(tmp_path / "home/.local/share/jupyter/kernels/k", {"A": "home"})
    write_spec(tmp_path / "extra/kernels/k", {"A": "extra"})
    home = {"HOME": str(tmp_path / "home")}
    assert read_spec_variables("k", "/gone", ["A"], home) == ({"A": "home"}, [])
    assert read_spec_variables("k", "", ["A"], {**home, "JUPYTER_PATH": str(tmp_path / "extra")})[0] == {"A": "extra"}


def test_without_a_readable_kernelspec_each_name_is_missing(tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/kernel.json").write_text("{")
    assert read_spec_variables("../k", str(tmp_path / "bad"), ["A"], {"HOME": str(tmp_path)}) == ({}, ["A"])
    assert read_spec_variables("k", "", [], {}) == ({}, [])

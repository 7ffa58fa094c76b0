"""The modules that are told as outside of the notebook's folder are those that Python itself imports from there."""

import ast
import asyncio
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from jupyter_gq.client.models import FileStore, Kernel
from jupyter_gq.lab.bundle.bundle import Runtime
from jupyter_gq.lab.bundle.software import Software
from jupyter_gq.lab.project.needed import Caps, Code, find_needed
from jupyter_gq.lab.project.outside_modules import find_outside_modules
from jupyter_gq.lab.project.plan import Project
from jupyter_gq.lab.requests import StayingFile
from tests.patience import scaled

CAPS = Caps(file=1000, job=10_000)
#: The part of a finder of setuptools that says where modules are; it would fail if it was run.
FINDER = "import sys\n\nMAPPING{hint} = {mapping!r}\nNAMESPACES = {{}}\n\ndef install():\n    raise SystemExit('run')\n"


@pytest.fixture
def folder(tmp_path) -> Path:
    """The folder of the notebook."""
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def lib(tmp_path) -> Path:
    """A folder outside of it with the package `nets`, the module `tools`, and a folder `data` without code."""
    lib = tmp_path / "home" / "lib"
    for path in ("nets/__init__.py", "tools.py", "data/readme.txt"):
        (lib / path).parent.mkdir(parents=True, exist_ok=True)
        (lib / path).touch()
    return lib


@pytest.fixture
def site(tmp_path) -> Path:
    """The folder with the packages of an environment that has only a Python."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "env")
    return next((tmp_path / "env").glob("lib/python3*/site-packages"))


def a_runtime(folder: Path, site: Path | None = None, **fields) -> Runtime:
    python = sys.executable if site is None else str(site.parents[2] / "bin" / "python")
    kernel = {"name": "python3", "display_name": "Python", "language": "python", "argv": [python, "-m", "x"]}
    given = {"environment": {}, **fields}
    return Runtime(server="", cwd=str(folder), kernel=Kernel(**kernel | given.pop("kernel", {})), **given)


def tell(
    source: str, runtime: Runtime, environ: dict[str, str] | None = None, reached: tuple[str, ...] = ("/",)
) -> list[StayingFile]:
    """Return what the plan says about the files and modules that stay."""
    folder = Path(runtime.cwd)
    needed = find_needed(folder, Code(trees=[ast.parse(source)]), [], CAPS)
    modules = asyncio.run(find_outside_modules(needed, [source], runtime, environ or {}))
    store = FileStore(missing=[], max_job_bytes=10_000, reached=list(reached))
    project = Project(
        folder=folder,
        named=None,
        needed=needed,
        left_out=frozenset(),
        store=store,
        caps=CAPS,
        is_live=False,
        needs_live="",
    )
    return project.describe(modules).staying


def ask_python(runtime: Runtime, name: str, environ: dict[str, str]) -> str:
    """Return from which folder the kernel's Python imports a module."""
    code = f"import os, {name}; print(os.path.dirname({name}.__file__ or {name}.__path__[0]))"
    command = [runtime.kernel.argv[0], "-c", code]
    return subprocess.run(command, env=environ, cwd=runtime.cwd, check=True, capture_output=True, text=True).stdout


def test_a_module_by_a_pth_file_is_told_with_its_place(folder, lib, site):
    (site / "__editable__.nets-0.1.pth").write_text(f"# code\nimport os\n\n{lib}\n")
    runtime = a_runtime(folder, site)
    (told,) = tell("import nets.model, json\nfrom numpy import array", runtime)
    assert (told.path, told.bytes, told.reached) == ("nets", None, True)
    assert told.message == (
        f"stays in {lib}, and the job imports what is there while it runs: to freeze it, move it into the notebook's "
        "folder"
    )
    assert ask_python(runtime, "nets", {}).strip() == f"{lib}/nets"


def test_this_package_is_in_each_job(folder, lib, site):
    (lib / "jupyter_gq.py").touch()
    (site / "lib.pth").write_text(str(lib))
    assert [each.path for each in tell("import jupyter_gq, nets", a_runtime(folder, site))] == ["nets"]


@pytest.mark.parametrize("hint", ["", ": dict[str, str]"])
def test_modules_by_a_finder_of_pip_are_told_without_running_it(folder, lib, site, hint):
    mapping = {"nets": f"{lib}/nets", "tools": f"{lib}/tools", "gone": f"{lib}/gone"}
    (site / "__editable___nets_0_1_finder.py").write_text(FINDER.format(hint=hint, mapping=mapping))
    (site / "__editable__.nets-0.1.pth").write_text("import __editable___nets_0_1_finder; raise SystemExit")
    told = tell("import nets, tools, gone", a_runtime(folder, site))
    assert [each.path for each in told] == ["nets", "tools"]
    assert all(each.message.startswith(f"stays in {lib}, ") for each in told)


@pytest.mark.parametrize(
    "end", ["\ninstall({call})\n", "\ndef entrypoint() -> None:\n    install({call})\n", "\ninstall({call}\n)"]
)
def test_modules_by_a_finder_of_scikit_build_core_are_told(folder, lib, site, end):
    files = {
        "nets": f"{lib}/nets/__init__.py",
        "tools": f"{lib}/tools.py",
        "data.inner.far": f"{lib}/data/inner/far.py",
    }
    (lib / "data" / "inner").mkdir()
    given = f"{files!r}, {{'nets._core': 'nets/_core.so'}}, None, False, True, [], [], ''"
    text = "raise SystemExit\ndef install(\n    known: dict[str, str],\n) -> None:\n    pass\n"
    (site / "_editable_skbc_nets.py").write_text(text + end.format(call=given))
    told = tell("import nets, tools, data", a_runtime(folder, site))
    assert [each.path for each in told] == ["data", "nets", "tools"]
    assert all(each.message.startswith(f"stays in {lib}, ") for each in told)


@pytest.mark.parametrize(
    "end",
    [
        "\ndef init():\n    finder = MesonpyMetaFinder(\n{call}    )\n    sys.meta_path.insert(0, finder)\n",
        "\ninstall(\n{call})\n",
    ],
)
def test_modules_by_a_finder_of_meson_python_are_told(folder, lib, site, end):
    plan = {
        f"{lib}/nets/core.py": {"destination": "{py_purelib}/nets/core.py"},
        f"{lib}/nets/__init__.py": {"destination": "{py_purelib}/nets/__init__.py"},
        f"{lib}/build/version.py": {"destination": "{py_platlib}/nets/_version.py"},
        f"{lib}/tools.py": {"destination": "{py_platlib}/tools.py"},
        f"{lib}/data/readme.txt": {"destination": "{datadir}/data/readme.txt"},
    }
    (lib / "build" / "meson-info").mkdir(parents=True)
    (lib / "build" / "meson-info" / "intro-install_plan.json").write_text(json.dumps({"python": plan, "targets": {}}))
    call = f"'nets',\n{{'nets', 'tools', 'data'}},\n'{lib}/build',\n['/bin/false'],\nFalse,\n"
    text = "raise SystemExit\nclass MesonpyMetaFinder(\n    object\n):\n    pass\n"
    (site / "_nets_editable_loader.py").write_text(text + end.format(call=call))
    told = tell("import nets, tools, data", a_runtime(folder, site))
    assert [each.path for each in told] == ["nets", "tools"]
    assert all(each.message.startswith(f"stays in {lib}, ") for each in told)


def test_a_pipe_in_the_place_of_the_plan_of_meson_holds_up_nobody(folder, lib, site):
    (lib / "build" / "meson-info").mkdir(parents=True)
    os.mkfifo(lib / "build" / "meson-info" / "intro-install_plan.json")
    (site / "_nets_editable_loader.py").write_text(f"MesonpyMetaFinder(\n'nets',\n{{'nets'}},\n'{lib}/build'\n)\n")
    assert tell("import nets", a_runtime(folder, site)) == []


@pytest.mark.parametrize(
    "text",
    [
        "\ninstall({'nets': 3})\n",
        "\ninstall({'nets': 'relative/nets.py', 'a.b.c': '/', '': ''})\n",
        "\ninstall(1, 2, 3)\n",
        "\ninstall()\n",
        "\ninstall({'nets'",
        "\ninstall(exit())\n",
        "MesonpyMetaFinder(\n'a', 7, '/x')\n",
        "MesonpyMetaFinder(\n'a', {'nets'}, '/nowhere', [], False)\n",
        "\ninstall(" * 30_000,
        "",
    ],
)
@pytest.mark.parametrize("name", ["_editable_skbc_nets.py", "_nets_editable_loader.py"])
def test_a_finder_of_another_tool_in_an_odd_form_is_passed_over(folder, site, name, text):
    (site / name).write_text(text)
    began = time.process_time()
    assert tell("import nets", a_runtime(folder, site)) == []
    assert time.process_time() - began < scaled(2)


def test_a_package_by_a_pth_file_comes_before_a_bare_folder_of_pythonpath(folder, tmp_path, lib, site):
    (tmp_path / "bare" / "nets").mkdir(parents=True)
    (site / "lib.pth").write_text(str(lib))
    environ = {"PYTHONPATH": str(tmp_path / "bare")}
    runtime = a_runtime(folder, site, environment=environ)
    (told,) = tell("import nets", runtime, environ)
    assert told.message.startswith(f"stays in {lib}, ")
    assert ask_python(runtime, "nets", environ).strip() == f"{lib}/nets"


@pytest.mark.parametrize(
    ("options", "ignores"),
    [
        (["-I", "-m", "x"], True),
        (["-uBE", "-m", "x"], True),
        (["-X", "utf8", "-W", "error", "-I"], True),
        (["-Wignore", "-E"], True),
        (["-m", "x", "-I"], False),
        (["-mx", "-E"], False),
        (["-u", "script.py", "-I"], False),
        (["-W", "-I", "-m", "x"], False),
        ([], False),
    ],
)
def test_a_python_that_ignores_the_environment_finds_nothing_by_pythonpath(folder, lib, site, options, ignores):
    argv = [str(site.parents[2] / "bin" / "python"), *options]
    told = tell("import nets", a_runtime(folder, kernel={"argv": argv}), {"PYTHONPATH": str(lib)})
    assert [each.path for each in told] == ([] if ignores else ["nets"])


@pytest.mark.parametrize(
    "text",
    [
        "MAPPING = {'nets': 7}",
        "MAPPING = {'nets'}",
        "MAPPING = {[]: 1}",
        "MAPPING = {'a': {1}.x}",
        "MAPPING = {",
        "MAPPING = 3",
        "\0",
    ],
)
def test_a_finder_of_another_form_is_passed_over(folder, site, text):
    (site / "__editable___nets_0_1_finder.py").write_text(text)
    (site / "a.pth").write_bytes(b"\xff\0\n/nowhere\n.\n" + b"x" * 300_000)
    assert tell("import nets", a_runtime(folder, site)) == []


def test_a_program_with_too_long_a_name_has_no_packages(folder, lib):
    runtime = a_runtime(folder, kernel={"argv": ["/" + "a" * 300 + "/bin/python3.11"]})
    assert [each.path for each in tell("import nets", runtime, {"PYTHONPATH": str(lib)})] == ["nets"]


def test_a_finder_of_many_lines_is_read_at_once(folder, site):
    """A search that goes back to each line would hold up all threads of the server for seconds."""
    (site / "__editable___nets_0_1_finder.py").write_text("MAPPING\n" * 30_000)
    began = time.process_time()
    assert tell("import nets", a_runtime(folder, site)) == []
    assert time.process_time() - began < scaled(2)


def test_a_long_home_of_an_environment_is_no_folder(folder, lib, site):
    home = "include-system-site-packages = true\nhome = /" + "a" * 5000 + " " * 100_000 + "/b\n"
    (site.parents[2] / "pyvenv.cfg").write_text(home)
    assert tell("import nets", a_runtime(folder, site)) == []


@pytest.mark.parametrize("text", ["[" * 200_000, "[]", "null", "{", None], ids=["deep", "list", "null", "cut", "pipe"])
def test_a_kernelspec_of_another_form_names_no_folder(folder, tmp_path, text):
    if text is None:
        os.mkfifo(tmp_path / "kernel.json")
    else:
        (tmp_path / "kernel.json").write_text(text)
    kernel = {"env_names": ["PYTHONPATH"], "resource_dir": str(tmp_path)}
    assert tell("import nets", a_runtime(folder, kernel=kernel)) == []


def test_what_python_takes_from_elsewhere_is_not_told(folder, lib, site):
    (site / "lib.pth").write_text(str(lib))
    for name in ("json", "installed", "beside", "whole"):
        (lib / f"{name}.py").touch()
    (site / "installed.py").touch()
    (site / "whole").mkdir()  # left over; a folder without code comes after all modules
    (folder / "beside.py").touch()
    runtime, source = a_runtime(folder, site), "import json, installed, beside, whole, data"
    told = {each.path: each.message for each in tell(source, runtime)}
    assert list(told) == ["data", "whole"]
    for name in ("json", "installed", "beside", "whole"):
        assert (ask_python(runtime, name, {}).strip() == str(lib)) is (name in told)


def test_of_pythonpath_modules_come_before_those_that_are_installed_and_bare_folders_after(folder, lib, site):
    (site / "nets").mkdir()
    (site / "nets" / "__init__.py").touch()
    (site / "data.py").touch()
    environ = {"PYTHONPATH": f"src:{lib}:"}
    runtime = a_runtime(folder, site, environment=environ)
    (told,) = tell("import nets, data", runtime, environ)
    assert told.path == "nets"
    assert ask_python(runtime, "nets", environ).strip() == f"{lib}/nets"
    assert ask_python(runtime, "data", environ).strip() == str(site)


@pytest.mark.parametrize(
    ("by", "reached", "is_found"),
    [
        ("pth", ["home", "env"], True),
        ("pth", ["home"], False),  # the job has another site-packages, which leads nowhere
        ("pth", ["env"], False),
        ("variable", ["home"], True),
        ("variable", ["env"], False),
        ("variable that stays", ["home"], False),
        ("kernelspec", ["home", "spec"], True),
        ("kernelspec", ["home"], False),
    ],
)
def test_a_job_finds_a_module_if_it_reaches_the_place_and_what_leads_there(
    tmp_path, folder, lib, site, by, reached, is_found
):
    environ, fields = {}, {}
    if by == "pth":
        (site / "lib.pth").write_text(str(lib))
    elif by == "kernelspec":
        (tmp_path / "spec").mkdir()
        (tmp_path / "spec" / "kernel.json").write_text(json.dumps({"env": {"PYTHONPATH": "${LIBS}/lib:${NONE}"}}))
        environ = {"LIBS": str(lib.parent), "PYTHONPATH": "/nowhere"}
        fields = {"kernel": {"env_names": ["PYTHONPATH"], "resource_dir": str(tmp_path / "spec")}}
    else:
        environ = {"PYTHONPATH": str(lib)}
        fields = {"environment": environ if by == "variable" else {}}
    shared = tuple(str(tmp_path / each) for each in reached)
    (told,) = tell("import nets", a_runtime(folder, site, **fields), environ, shared)
    assert told.reached is is_found
    if not is_found:
        assert told.message == (
            f"the job does not find it in {lib}: install it in the job's image or environment, or move it into the "
            "notebook's folder"
        )


def test_a_module_below_the_notebook_s_folder_is_frozen_by_the_line_that_the_plan_names(folder, site):
    (folder / "src" / "nets").mkdir(parents=True)
    (folder / "src" / "nets" / "__init__.py").touch()
    (site / "lib.pth").write_text(str(folder / "src"))
    runtime, line = a_runtime(folder, site), "sys.path.insert(0, 'src')"
    (told,) = tell("import nets", runtime)
    assert told.message.endswith(f"to freeze it, run {line} in a cell before")
    source = f"import sys\n{line}\nimport nets"
    assert tell(source, runtime) == []
    assert "src/nets/__init__.py" in find_needed(folder, Code(trees=[ast.parse(source)]), [], CAPS).going
    # Files that only go along do not change from where the job imports.
    (told,) = tell("import nets\nos.listdir('src')", runtime)
    assert told.path == "nets"


@pytest.mark.parametrize(("value", "found"), [("src", ["nets"]), (":.:", []), ("../work", []), ("/nowhere", [])])
def test_a_relative_path_in_pythonpath_begins_in_the_notebook_s_folder(folder, site, value, found):
    (folder / "src" / "nets").mkdir(parents=True)
    (folder / "src" / "nets" / "__init__.py").touch()
    environ = {"PYTHONPATH": value}
    told = tell("import nets, src", a_runtime(folder, site, environment=environ), environ)
    assert [each.path for each in told] == found
    assert all(each.message.startswith(f"stays in {folder}/src, ") for each in told)


def test_a_folder_beside_the_packages_counts_as_installed(folder, site):
    (site / "inner").mkdir()
    (site / "inner" / "nets.py").touch()
    (site / "inner.pth").write_text("inner")
    assert tell("import nets", a_runtime(folder, site)) == []


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ("sys.path.insert(0, 'src')", True),
        ("sys.path.append('./src/')", True),
        ("import os; place = 'src'; sys.path.insert(0, os.path.abspath(place))", True),
        ("sys.path.insert(0, '..')", False),
        ("sys.path.append('../work/src')", False),
        ("sys.path.append('/src')", False),
        ("others.path.append('src')", False),
    ],
)
def test_modules_of_a_folder_that_a_cell_adds_go_along_where_the_folder_is_too_large(folder, line, goes):
    for path in ("src/nets/__init__.py", "src/nets/model.py", "src/unused.py"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    (folder / "src" / "data.bin").write_bytes(b"1" * 2000)
    needed = find_needed(folder, Code(trees=[ast.parse(f"import sys\n{line}\nimport nets")]), [], CAPS)
    assert list(needed.going) == (["src/nets/__init__.py", "src/nets/model.py"] if goes else [])


def test_a_module_that_is_installed_is_still_told_if_its_folder_comes_last(folder, site):
    (folder / "src").mkdir()
    (folder / "src" / "nets.py").touch()
    (site / "lib.pth").write_text(str(folder / "src"))
    runtime, source = a_runtime(folder, site), "import sys\nsys.path.{}'src')\nimport nets"
    assert [each.path for each in tell(source.format("append("), runtime)] == ["nets"]
    assert tell(source.format("insert(0, "), runtime) == []


def test_a_folder_of_modules_that_go_along_is_not_told(folder, site):
    for path in ("parts/one.py", "src/others/two.py"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).touch()
    (site / "lib.pth").write_text(f"{folder}\n{folder}/src\n")
    source = "import sys\nsys.path.insert(0, 'src')\nfrom parts import one\nfrom others import two"
    assert tell(source, a_runtime(folder, site)) == []


def test_nothing_is_told_of_programs_of_the_machine_and_of_another_image(folder, lib, site):
    (site / "lib.pth").write_text(f"{lib}\n/usr/lib\n")
    usual = a_runtime(folder, site)
    names = ", ".join(["nets", *(each.name for each in Path("/usr/lib").iterdir() if each.name.isidentifier())])
    assert [each.path for each in tell(f"import {names}", usual)] == ["nets"]
    assert tell("import nets", a_runtime(folder, site, software=Software(name="x", is_image=True))) == []
    assert tell("import nets", a_runtime(folder, site, kernel={"argv": ["python3"]})) == []
    assert tell("import nets", a_runtime(folder, site, kernel={"language": "R"})) == []


@pytest.mark.parametrize("place", ["base", "ann/.local"])
def test_an_environment_that_shares_packages_has_those_of_the_other_one_and_of_the_user(tmp_path, folder, lib, place):
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / place / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "a.pth").write_text(str(lib))
    for shared, found in (("true", ["nets"]), ("false", [])):
        env = tmp_path / f"env-{shared}"
        (env / "bin").mkdir(parents=True)
        (env / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
        (env / "pyvenv.cfg").write_text(f"home = {tmp_path}/base/bin\ninclude-system-site-packages = {shared}\n")
        runtime = a_runtime(folder, kernel={"argv": [str(env / "bin" / "python")]})
        assert [each.path for each in tell("import nets", runtime, {"HOME": f"{tmp_path}/ann"})] == found


def test_a_folder_is_listed_anew_once_it_has_changed(folder, lib, site):
    runtime = a_runtime(folder, site)
    assert tell("import nets", runtime) == []
    (site / "lib.pth").write_text(str(lib))
    os.utime(site, ns=(1, 1))  # the clock of a file system may be coarse
    assert len(tell("import nets", runtime)) == 1
    (site / "lib.pth").write_text("")
    assert tell("import nets", runtime) == []

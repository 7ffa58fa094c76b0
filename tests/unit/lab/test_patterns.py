"""Patterns take no tokens and no hidden files along, and a line of the ignore file that names nothing is told."""

import ast
import glob
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from jupyter_gq.lab.clock import monotonic
from jupyter_gq.lab.project.ignored import IGNORE_FILE, Ignored
from jupyter_gq.lab.project.needed import Caps, Code, Needed, find_needed
from jupyter_gq.lab.project.patterns import Patterns, explain_pattern, is_usable
from tests.patience import scaled

CAPS = Caps(file=1000, job=20_000)
TOKENS = (
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".local/share/jupyter/runtime/jpserver-7.json"),
    *("jpserver-7.json", ".config/gh/hosts.yml", ".vault-token", ".cargo/credentials.toml", ".my.cnf", ".s3cfg"),
    *(".rclone.conf", ".dockerconfigjson", ".cdsapirc", ".flaskenv", "oauth.json", "cookies.txt", ".dbt/profiles.yml"),
    *(".boto", ".bash_history", ".config/rclone/rclone.conf", "prod.env", ".env~", ".aws/config", ".kube/config"),
    *("service_account.json", "token.json"),
    *("old/.config/gcloud/access_tokens.db", ".config/jupyter-gq/secrets/HF_TOKEN", ".jupyter/jupyter_gq_login.json"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for path in (*TOKENS, "train.py"):
        write(tmp_path / "ann", path)
    return tmp_path / "ann"


def write(folder: Path, path: str, content: str = "") -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def find(folder: Path, *patterns: str) -> Needed:
    return find_needed(folder, Code(), patterns, CAPS)


@pytest.mark.parametrize("patterns", [("*",), ("./*",), ("*", ".*"), ("**/*", ".*/"), tuple(TOKENS)])
def test_patterns_take_no_token_of_a_home_along(home, patterns):
    needed = find(home, *patterns)
    assert set(needed.going) <= {"train.py"}
    assert "prod.env" in needed.secrets


@pytest.mark.parametrize("path", TOKENS)
def test_each_secret_goes_along_by_a_line_of_the_ignore_file(home, path):
    folder = f"!{path.split('/')[0]}/\n" if "/" in path else ""
    write(home, IGNORE_FILE, f"{folder}!{path}\n")
    assert list(find(home, path).going) == [path]


@pytest.mark.parametrize("place", [".ssh", ".aws/project", ".config/gcloud/a/b"])
def test_all_below_a_folder_for_secrets_stays_unless_its_owner_says_otherwise(home, place):
    folder = home / place
    for path in ("net.py", "credentials/a.py", "sub/a.py", "sub/prod.env"):
        write(folder, path)
    needed = find(folder, "*")
    assert (needed.going, needed.staying["net.py"].why) == ({}, "it is in a folder that may hold secrets")
    assert find(folder, "credentials/").going == {}
    write(folder, IGNORE_FILE, "!net.py\n!sub/\n")
    needed = find(folder, "*.py", "sub/")
    assert (sorted(needed.going), needed.secrets[-1]) == (["net.py", "sub/a.py"], "sub/prod.env")


def test_a_pattern_with_a_star_names_hidden_files_only_with_their_dot(tmp_path):
    for path in (".cache/a.bin", ".flake8", "out/.hydra/config.yaml", "out/a.yaml", ".dvc/config"):
        write(tmp_path, path)
    found = find(tmp_path, "*")
    assert list(found.going) == ["out/a.yaml"]
    assert set(found.hidden) == {".flake8", ".cache/", "out/.hydra/", ".dvc/"}
    assert list(find(tmp_path, "./*").going) == ["out/a.yaml"]
    assert sorted(find(tmp_path, "out/").going) == ["out/.hydra/config.yaml", "out/a.yaml"]
    assert sorted(find(tmp_path, ".*").going) == [".cache/a.bin", ".dvc/config", ".flake8", "out/.hydra/config.yaml"]
    assert list(find(tmp_path, "out/*.yaml", "!a.yaml", ".dvc/*").going) == [".dvc/config"]


def test_a_folder_named_for_its_files_tells_which_secrets_stay(tmp_path):
    write(tmp_path, "conf/a.yaml")
    write(tmp_path, "conf/.env")
    needed = find_needed(tmp_path, Code(trees=[ast.parse("load('conf')")]), (), CAPS)
    assert (list(needed.going), needed.secrets) == (["conf/a.yaml"], ["conf/.env"])


def test_a_pattern_does_not_search_the_folders_of_the_machine():
    found = find(Path("/"), "self")
    assert not any(path.startswith(("proc/", "sys/")) for path in (*found.going, *found.staying))


def test_a_path_from_the_present_folder_on_is_a_pattern(tmp_path):
    for path in ("conf/a.yaml", "deep/conf/b.yaml"):
        write(tmp_path, path)
    assert list(find(tmp_path, "./conf").going) == ["conf/a.yaml"]
    write(tmp_path, IGNORE_FILE, "./conf\n")
    rules = Ignored.read(tmp_path)
    assert [rules.covers("conf/"), rules.covers("deep/conf/"), rules.problem] == [True, False, ""]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (" data/", "begins with a space: leave it out"),
        ("!{here}/data", "is a full path: write '/data'"),
        ("{here}/data", "is a full path: write '/data'"),
        ("~/data", "leads out of the folder: write a path from this folder on"),
        ("../data", "leads out of the folder: write a path from this folder on"),
        ("data/./a", "has a name that no file has: write a path from this folder on, such as data/raw"),
        ("data//a", "has a name that no file has: write a path from this folder on, such as data/raw"),
        ("data\\raw", "has a \\ where a / is meant"),
        ("*.{{csv,txt}}", "has a {{ }}, which names no choice here: write a pattern for each, such as *.csv and *.txt"),
        ("[[:alpha:]]*.csv", "has a class such as [:alpha:]: write its letters, such as [a-z]"),
        ("[z-a]", "has a range of letters that ends before it begins: write it as [a-z]"),
        ("[", r"has a [ without a letter and a ] after it: write \[ for the letter itself"),
        ("!a[]", r"has a [ without a letter and a ] after it: write \[ for the letter itself"),
        ("a\\", r"ends with a \ : write \\ for the letter itself, or leave it out"),
        ("!", "names nothing: write the name of a file or folder, such as data"),
        ("/", "names nothing: write the name of a file or folder, such as data"),
        ("./", "names nothing: write the name of a file or folder, such as data"),
        ("x" * 1001, "has more than 1,000 letters"),
        ("{{" * 30_000, "has more than 1,000 letters"),
        ("../data" + " " * 2000, "leads out of the folder: write a path from this folder on"),
    ],
)
def test_a_line_of_the_ignore_file_that_can_name_nothing_is_told(tmp_path, line, why):
    line = line.format(here=tmp_path)
    write(tmp_path, IGNORE_FILE, f"# kept here\n\n{line}\n")
    problem = Ignored.read(tmp_path).problem
    assert problem.startswith("its line 3, ")
    assert problem.endswith(f", {why.format()}")


@pytest.mark.parametrize(
    "line",
    [
        "  # data",
        "data[[]1].csv",
        "[{]a,b}.csv",
        "[a&&b]",
        "!**/a/**/b*c*d/**/e/**",
        "*" * 900,
        "~$*.docx",
        "~backup",
        "**/data/**/a",
        r"a\ b",
        r"\#a",
        r"\a/\b",
        "data/ ",
        "/data/raw",
        "a b",
        "*~",
    ],
)
def test_a_line_that_may_name_a_file_is_followed(tmp_path, line):
    write(tmp_path, IGNORE_FILE, f"{line}\n")
    assert Ignored.read(tmp_path).problem == ""
    assert Ignored("/data", [line]).problem == "", "/data/raw may be in a folder data of /data"


@pytest.mark.parametrize("line", ["!*/", "!**", "!.*", "!/*/"])
def test_a_line_that_lets_everything_go_along_lets_no_secret(home, line):
    write(home, IGNORE_FILE, f"*\n{line}\n!*.py\n")
    assert set(find(home, "*", ".*", ".aws/").going) <= {"train.py", IGNORE_FILE}


@pytest.mark.parametrize("line", ["!src/**", "!/src/*", "!src/**/*", "!./src/**", "![a-z]*", "!**/[!_]*", "!*.[a-z]*"])
def test_a_line_for_all_of_a_folder_lets_no_secret_go_along(tmp_path, line):
    for name in (".env", "server.key", "id_rsa", "secrets.yaml", "m.py"):
        write(tmp_path, f"src/{name}")
    write(tmp_path, IGNORE_FILE, f"*\n!*/\n{line}\n")
    assert set(find(tmp_path, "src/").going) <= {"src/m.py"}


def test_an_ignore_file_of_too_many_lines_or_behind_a_dangling_link_is_told(tmp_path):
    write(tmp_path, IGNORE_FILE, "a\n" * 2000)
    assert Ignored.read(tmp_path).problem == ""
    write(tmp_path, IGNORE_FILE, "a\n" * 2000 + "data/\n")
    assert Ignored.read(tmp_path).problem == "it has more than 2,000 lines"
    (tmp_path / IGNORE_FILE).unlink()
    (tmp_path / IGNORE_FILE).symlink_to("patterns.txt")
    assert Ignored.read(tmp_path).problem == "it is a link to no file"
    write(tmp_path, "patterns.txt", "data/\n")
    assert Ignored.read(tmp_path).problem == ""


def test_the_last_lines_of_a_long_ignore_file_count(tmp_path):
    write(tmp_path, IGNORE_FILE, "a\n" * 1999 + "data/\n")
    assert Ignored.read(tmp_path).covers("data/")


@pytest.mark.parametrize("line", ["*a*a*a*b", "*a" * 400 + "*b", "**/*a*a" * 100 + "/b", "**/*[ab]*?" * 80 + "/**/c"])
def test_a_pattern_with_many_stars_is_compared_at_once_with_a_long_path(tmp_path, line):
    """A search that goes back needs from seconds to years for such a path."""
    rules = Ignored(str(tmp_path), [f"{line}{number}" for number in range(60)])
    path = "/".join(["a" * 250] * 15 + ["c0b"])
    begin = monotonic()
    assert not rules.covers(path)
    assert monotonic() - begin < scaled(2)
    assert rules.problem == ""


def list_kept_by_git(folder: Path, line: str, paths: list[str]) -> set[str]:
    (folder / ".git/info/exclude").write_text(f"{line}\n")
    asked = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=folder,
        input="\0".join(paths),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(asked.stdout.split("\0")) - {""}


@pytest.mark.skipif(shutil.which("git") is None, reason="Git is not on this machine")
@pytest.mark.parametrize(
    "lines",
    [
        *([r"x[\[]1[\]].csv"], [r"[\]]y.csv"], [r"run[\-.]1.csv"], [r"[!\]]y.csv"], [r"[a\]b]y.csv"], [r"[\]-a]y.csv"]),
        *([r"[+-\-]y.csv"], [r"[]-a]y.csv"], [r"[\\]y.csv"], ["[--.]y.csv"], ["[a-]y.csv"], ["*[!]a]y.csv"]),
        *(["q/***/no.csv"], ["***/raw/*.csv"], ["/***/no.csv"], ["q/****/no.csv"], ["***/***"], ["***"], ["q/***/"]),
        *(["q/**"], ["q/**/"], ["**/"], ["/**"], ["/**/"], ["**/r/**"], ["q/**/**"], ["***/"], ["*/"], ["q/*/"]),
        *(["q/**", "!q/no.csv"], ["/q/**", "!/q/a/"], ["**/q/**", "!**/q/no.csv"], ["q/**", "!q/a/", "!q/a/no.csv"]),
        *(["q/*", "!q/no.csv"], ["q/**", "!q/**/", "!no.csv"], ["*", "!*/", "!no.csv"], ["**/**", "!q/", "!q/no.csv"]),
    ],
)
def test_lines_are_read_as_git_reads_them(tmp_path, lines):
    names = [*("x[1].csv", "x1.csv", "]y.csv", "ay.csv", "by.csv", "-y.csv", "[y.csv", "^y.csv", "y.csv"), "run-1.csv"]
    names += [*("run.1.csv", "run\\1.csv", "run,1.csv", ".y.csv", ",y.csv", "q/no.csv", "q/a/no.csv", "q/a/b/no.csv")]
    names += [*("q/raw/no.csv", "q/r/raw/no.csv", "raw/no.csv", "no.csv", "r/raw/no.csv", "q/r/x.csv", "q/a/x.csv")]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in names:
        write(tmp_path, name)
    kept = list_kept_by_git(tmp_path, "\n".join(lines), names)
    rules = Patterns(lines)
    assert {name for name in names if rules.names(name)} == kept


def test_a_line_that_names_a_file_counts_before_lines_for_its_folder():
    """Not as in Git; the page on sending data along says so."""
    rules = Ignored("/data", ["!sample*.csv", "private/"])
    assert [rules.covers(f"private/{name}") for name in ("", "sample1.csv", "a.csv")] == [True, False, True]
    assert Ignored("/data", ["!/sample*.csv", "private/"]).covers("private/sample1.csv")


@pytest.mark.parametrize("code", ["glob.glob('data/*.csv')", "os.listdir('data')", "pass"])
def test_a_line_that_ends_with_two_stars_lets_a_file_of_the_folder_be_let_go(tmp_path, code):
    for name in ("data/keep.csv", "data/b.csv", "data/sub/c.csv"):
        write(tmp_path, name)
    write(tmp_path, IGNORE_FILE, "data/**\n!data/keep.csv\n")
    patterns = ["*.csv"] if code == "pass" else []
    found = find_needed(tmp_path, Code(trees=[ast.parse(f"import glob, os\n{code}")]), patterns, CAPS)
    assert "data/keep.csv" in found.going
    assert found.unmatched == []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["*", "**", "/", "/**/", "a", "ab", "?", "[ab]"]), min_size=1, max_size=9).map("".join),
    st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4).map("/".join),
)
@example("a*b*ab", "aabab")
@example("a*b*ab", "abab")
@example("a/**/b/**/a/b", "a/b/a/b/a/b")
@example("*b/**/a", "ab/b/a")
def test_each_place_of_a_star_is_found_without_going_back(line: str, path: str) -> None:
    if not is_usable(line) or "***" in line or line.rstrip("/").endswith("**"):
        return
    known = GitIgnoreSpec.from_lines([line])
    for each in (path, f"{path}/"):
        assert Patterns([line]).choose(each) == known.check_file(each).include


def test_a_set_of_letters_stands_for_no_slash():
    assert Patterns(["a[!b]c"]).choose("a/c") is None
    assert Patterns(["a[+-9]c"]).choose("a/c") is None
    assert Patterns(["a[+-9]c"]).names("a0c")


def test_patterns_that_glob_escape_makes_name_their_file(tmp_path):
    names = ["data[1].csv", "a*b.csv", "c?[d]", "{e,f}.csv"]
    for name in [*names, "data1.csv"]:
        write(tmp_path, name)
    assert sorted(find(tmp_path, *map(glob.escape, names[:3]), r"\{e,f}.csv").going) == sorted(names)


def test_empty_patterns_and_comments_are_not_told(tmp_path):
    needed = find(tmp_path, "", " ", "# data", "#", "*.csv")
    assert (needed.unmatched, needed.unusable) == (["*.csv"], [])
    assert [explain_pattern(each, "/data") for each in ("", " ", "# ../data")] == ["", "", ""]


def test_a_package_with_the_name_of_an_environment_goes_along(tmp_path):
    for path in ("env/maze.py", "rl/env/__init__.py", "old/env/pyvenv.cfg", "old/env/a.py", "venv/bin/python"):
        write(tmp_path, path)
    assert sorted(find(tmp_path, "*").going) == ["env/maze.py", "rl/env/__init__.py"]
    code = Code(trees=[ast.parse("import env.maze, rl.env, old.env.a")])
    assert sorted(find_needed(tmp_path, code, (), CAPS).going) == ["env/maze.py", "rl/env/__init__.py"]
    write(tmp_path, IGNORE_FILE, "env/\n!old/env/\n")
    assert sorted(find(tmp_path, "*").going) == ["old/env/a.py", "old/env/pyvenv.cfg"]


def test_a_folder_with_an_environment_stays_whatever_its_name(tmp_path):
    for path in ("py312/pyvenv.cfg", "py312/lib/a.py", "x/torch/conda-meta/history", "x/torch/lib/a/b.py", "x/a.py"):
        write(tmp_path, path)
    assert sorted(find(tmp_path, "*").going) == ["x/a.py"]
    assert list(find(tmp_path / "py312", "*.py").going) == ["lib/a.py"], "a notebook may be in an environment itself"
    write(tmp_path, IGNORE_FILE, "!py312/\n")
    assert sorted(find(tmp_path, "*").going) == ["py312/lib/a.py", "py312/pyvenv.cfg", "x/a.py"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_of_the_ignore_file_ends_with_a_line_feed_or_carriage_return_only(tmp_path, end):
    (tmp_path / IGNORE_FILE).write_bytes(f"# mine{end}a\x0cb{end}c\u2028d{end}".encode())
    rules = Ignored.read(tmp_path)
    assert [rules.covers(name) for name in ("a\x0cb", "c\u2028d", "a", "b", "d")] == [True, True, False, False, False]


#: What the library reads otherwise: a set may stand for a slash, "***" for no letter, a last "**" for the folder
#: before it, and a last space after a backslash is dropped.
_READ_OTHERWISE = re.compile(r"\[[!^]|\*\*\*|\*\*/?\Z|\\ +\Z")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("ab.*?!/[]#\\ -é", max_size=8), max_size=4),
    st.lists(st.text("ab.-é", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join),
)
@example(["[ab].b"], "a.b")
@example(["a\\b"], "ab")
def test_the_quick_look_at_a_path_overlooks_no_pattern(lines: list[str], path: str) -> None:
    lines = [*lines, "*.key", "!/a/b/"]
    lines = [line for line in lines if not _READ_OTHERWISE.search(line)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of Python, on sets of letters in the library's expressions
        known = GitIgnoreSpec.from_lines(filter(is_usable, (re.sub(r"\A(!?)\./", r"\1/", line) for line in lines)))
    for each in (path, f"{path}/", f"{path}.key", f"{path}/a"):
        if each.startswith("./"):  # the library leaves that out
            continue
        assert Patterns(lines).choose(each) == known.check_file(each).include

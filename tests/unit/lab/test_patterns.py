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
from jupyter_gq.lab.project.plan import Project
from jupyter_gq.lab.project.secret_files import list_originals
from tests.patience import scaled

CAPS = Caps(file=1000, job=20_000)
TOKENS = (
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".local/share/jupyter/runtime/jpserver-7.json"),
    *("jpserver-7.json", ".config/gh/hosts.yml", ".vault-token", ".cargo/credentials.toml", ".my.cnf", ".s3cfg"),
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


@pytest.mark.parametrize(
    "lines",
    [
        "*\n!*.json\n!*.txt\n",
        "/data/*\n!/data/*.csv\n",
        "!r*\n",
        "!k?ggle.json\n",
        "!*[]a-z]*\n",
        "!**/*[]a]*\n",
        "!t* \n",
    ],
)
def test_a_line_with_a_star_in_its_last_name_lets_no_secret_go_along(tmp_path, lines):
    secrets = ["data/credentials.csv", "kaggle.json", "rclone.conf", "token.txt"]
    for path in secrets:
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, lines)
    assert find(tmp_path, *secrets).going == {}
    rules = Ignored(str(tmp_path), [*lines.split("\n"), "!**/kaggle.json", "!da*a/credentials.csv", "!\\token.txt"])
    assert list(filter(rules.is_secret, secrets)) == ["rclone.conf"]


def list_notes(folder: Path, needed: Needed) -> list[str]:
    project = Project(
        folder=folder,
        named=None,
        needed=needed,
        left_out=frozenset(),
        store=None,
        caps=CAPS,
        is_live=False,
        needs_live="",
    )
    return project.describe().pattern_notes


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            "run[1].pem",
            "sub [x]/.env",
            "server.key ",
            "server.key  ",
            "sub /a.key",
            "a{1,2}.pem",
            "a\\b.pem",
            " a.key",
        ),
        *("#a.key", "!a.key", "a*?.key", "~/a.key", "\\{a,b}.key", "[[:alpha:]].key", "[]]a.key", "é !#.key", "a]{.p8"),
    ],
)
def test_the_note_on_a_secret_has_a_line_that_lets_it_go_along(tmp_path, path):
    write(tmp_path, path)
    code = Code(trees=[ast.parse(f"open({'./' + path!r})")])
    (note,) = list_notes(tmp_path, find_needed(tmp_path, code, (), CAPS))
    begin, end = (
        f"What may hold secrets stays, such as {path}: the line ",
        " in .jupyter-gq-ignore lets the job take it",
    )
    assert note.startswith(f"{begin}!")
    assert note.endswith(f"{end} along all the same.")
    write(tmp_path, IGNORE_FILE, f"{note.removeprefix(begin).removesuffix(f'{end} along all the same.')}\n")
    needed = find_needed(tmp_path, code, (), CAPS)
    assert (list(needed.going), list_notes(tmp_path, needed)) == ([path], [])


@pytest.mark.parametrize("path", ["a\nb.key", "\tb.key"])
def test_the_note_on_a_secret_has_no_line_if_none_can_name_it(tmp_path, path):
    needed = Needed(secrets=[path])
    assert list_notes(tmp_path, needed) == [
        f"What may hold secrets stays, such as {path!r}; no line in .jupyter-gq-ignore can name it."
    ]


def test_a_link_to_a_secret_names_the_secret(tmp_path):
    write(tmp_path, ".env")
    (tmp_path / "settings").symlink_to(".env")
    assert find(tmp_path, "settings").secrets == [".env"]
    write(tmp_path, IGNORE_FILE, "!.env\n")
    assert list(find(tmp_path, "settings").going) == ["settings"]


def test_a_package_of_credentials_goes_along_and_no_file_of_that_name(tmp_path):
    for path in ("app/credentials/__init__.py", "app/__init__.py", "old/credentials"):
        write(tmp_path, path)
    needed = find(tmp_path, "app", "old")
    assert (sorted(needed.going), needed.secrets) == (
        ["app/__init__.py", "app/credentials/__init__.py"],
        ["old/credentials"],
    )


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


@pytest.mark.parametrize(
    "path",
    [
        *("credentials-Copy1.json", "server.key~", "server.key.bak", "id_rsa (1)", "old/credentials (2).json"),
        *("gcp-credentials.json", "ann_accessKeys.csv", "credentials (1).csv"),
        *("token copy.json", ".server.pem.swp", ".hf_token", "terraform.tfstate", "terraform.tfstate.backup"),
        *("prod.env~", ".env.py", "credentials - Copy (2).json", "kaggle(1).json", "credentials (another copy).json"),
        *("Copy of token.json", "server.key.bak~", "server.key.~1~", "conf/#server.key#", ".pypirc.swp"),
        *("kaggle-Copy1 (1).json", "server.key.bak.1", "copy of .netrc", ".token.json.swp"),
        *("kaggle 2.json", "credentials 2", "kaggle.json.1", "kaggle.json.part", "kaggle.json.tmp"),
        *("kaggle.json.crdownload", ".netrc.rpmsave", ".netrc.rpmnew", ".npmrc.dpkg-old", ".npmrc.dpkg-dist"),
        *(
            "pip.conf.ucf-old",
            "pip.conf.ucf-dist",
            "kaggle (Ann's conflicted copy 2026-11-30).json",
        ),
        *("kaggle.sync-conflict-20261130-101010-ABCDEFG.json", "kaggle-checkpoint.json", "kaggle - Kopie.json"),
        *("kaggle.json.gz", "credentials.tar.gz", "backup/.aws.zip", ".kaggle.json.un~", "kaggle (1).json.1.gz"),
        *("kaggle.json.20261130", "kaggle (Konfliktkopie von Ann (1)).json", "kaggle.json.txt", "kaggle.json."),
        *(".~kaggle.json", "kaggle.json.invalid", "kaggle.json.prev", "kaggle.json.disabled", "kaggle (Kopie).json"),
        *("kaggle (copie).json", "kaggle (copia).json", "kaggle (c\u00f3pia 2).json", "kaggle - Co\u0301pia.json"),
        *("Kopie von kaggle.json", "Copie de kaggle.json", "Copia de kaggle.json", ".kaggle.json.tmp", "kaggle.json.~"),
        *(".kaggle.json.Xa3bQ9", "..netrc.Xa3bQ9", ".server.key.a1b2c3", "kaggle.json.br", "kaggle.json.lzma"),
        *("keys/.aws.tbz2", "keys/.aws.txz", "kaggle (3. Kopie).json", ".env.Xa3bQ9"),
        *("prod-Copy1.env", ".env.local.bak", "prod.env.1", ".env.production~", "id_rsa_github.old"),
    ],
)
def test_a_copy_of_a_secret_stays_as_the_secret_does(tmp_path, path):
    write(tmp_path, path)
    needed = find(tmp_path, path)
    assert (list(needed.going), needed.secrets) == ([], [path])
    write(tmp_path, IGNORE_FILE, f"!{path}\n")
    assert list(find(tmp_path, path).going) == [path]


def test_a_line_for_a_secret_lets_no_copy_go_along(tmp_path):
    going, staying = [".env", "data/.env", "kaggle.json"], [".env.bak", "data 2/.env", "kaggle.json.part"]
    for path in (*going, *staying):
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, "!/.env\n!/data/.env\n!kaggle.json\n")
    needed = find(tmp_path, ".env*", "data/.env", "data 2/.env", "kaggle*")
    assert (sorted(needed.going), sorted(needed.secrets)) == (going, staying)


def test_a_name_with_many_marks_of_copies_is_judged_at_once():
    """A search for all of them together took exponentially long, on a name that a clone of a repository may bring."""
    name = "-copy (copy)" * 20
    assert list_originals(f"{name}(x") == []
    assert list_originals("~" * 250 + "/server.key.bak~") == ["~" * 240 + "/server.key"] * 2


MARKS = ("-copy", " (copy)", "(1)", " 2", ".bak", ".1", "~", ".~1~", ".part", ".sync-conflict-", " (conflict", ".gz")


def test_the_time_for_a_name_grows_at_most_with_the_square_of_its_length():
    names = [
        f"{begin}{(each * 250)[:240]}{end}"
        for each in (*MARKS, ".env", ".a3b3c3", "copia de ", "(a kopie)", "secret", "#", "copy of ", " ", "[")
        for begin in ("", " (", ".")
        for end in ("", "x", ")", "~", ".json")
    ]
    rules = Ignored("/data")
    begin = monotonic()
    for name in names:
        rules.is_secret(name)
        rules.is_secret("/".join([name] * 3))
    assert monotonic() - begin < scaled(10)


def test_a_line_for_a_folder_lets_no_copy_of_a_secret_in_it_go_along(tmp_path):
    paths = [*("conf/a.key", "conf/a.key~", "conf/a.key.bak"), ".aws/credentials~", "app/credentials/a.key~"]
    for path in [*paths, "conf/a.yaml", "app/credentials/a.py", ".ssh-old/deploy"]:
        write(tmp_path, path)
    assert find(tmp_path, ".ssh-old/").secrets == [".ssh-old/"]
    write(tmp_path, IGNORE_FILE, "!conf/\n!.aws/\n!conf/a.key.bak\n!.ssh-old/\n")
    needed = find(tmp_path, "conf/", ".aws/", "app/", ".ssh-old/")
    assert sorted(needed.going) == [".ssh-old/deploy", "app/credentials/a.py", "conf/a.key.bak", "conf/a.yaml"]
    assert sorted(needed.secrets) == sorted(set(paths) - {"conf/a.key.bak"})


def test_code_with_a_name_like_that_of_a_secret_goes_along(tmp_path):
    names = [
        *(" (1)", "#", "data (2024).csv", "my.env.ipynb", "my.env.py", "secrets_old.py", "tokenizer.json", "~"),
        *("gym.env.yaml", "gym.env.csv", "x.env.R", "x.env.npz", "x.env.npz.gz", "my.env.py~", "atari.env/maze.py"),
        *("id_rsa_study.csv", "id_rsa.pub", "id_rsa.pub.bak", "secretary.json", "secretion.yaml", "train 2.csv"),
        *("cacert.pem", "certs/public.pem", "public_key.pem", "id_rsa.pub.txt", "secretase.json", "secretin.yaml"),
        *("beta_secretase.toml", "secretagogue.json", "secretor.json", "serviceXaccount.json", "vocab/token.txt"),
        *(f"x.env.{end}" for end in ("tfrecord", "gguf", "msgpack", "lmdb", "bin", "xlsx", "tif", "tiff", "webp")),
        *(f"x.env.{end}" for end in ("tsx", "css", "lua", "log", "hdf")),
        *("tokens.json", "tokenizer_config.json", "special_tokens_map.json", "bos_token.txt"),
        *("added_tokens.json", "api_token.py", "kubeconfig.py", "private_key.py", "secret_garden.txt", "secrets.py"),
        *("api_key.py", "credentials.py", "covid_rsa", "old_id_rsa.pub", "id_rsa.md", "key.txt", "secrets/a.py"),
        *("hf_tokenizer.json", "model.ckpt.1", "data.csv.gz", "prod.env.example", "net-checkpoint.pt", "id_rsa/a.py"),
    ]
    for name in names:
        write(tmp_path, name)
    assert sorted(find(tmp_path, "*").going) == sorted(names)
    for name in (".env.example", ".env.template", ".env.sample", ".env.local.example", ".env.dist", ".env.example~"):
        write(tmp_path, name)
        assert list(find(tmp_path, name).going) == [name]


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".env.local", ".env.production", "prod.env", "prod.env.eu", "prod.env.txt", ".env.json", ".envrc"),
        *(".aws 2/config", ".ssh (1)/deploy", "token.json "),
        *(".env.d/x.env.py", ".env.d/id_rsa.pub", ".aws/gym.env.csv", ".ssh/id_rsa.pub", "id_rsa_github", "id_rsa.txt"),
        *(
            "hf_token.txt",
            "rootkey.csv",
            "vault-token",
            "private_key",
            "token.txt",
            "wandb_api_key.txt",
            "client_secret_1.json",
            "secretkey.json",
            "x/mysecret.yml",
        ),
        *("kubeconfig.yaml", "kubeconfig-prod", "prod.kubeconfig", "prj-firebase-adminsdk-x1.json", "AuthKey_A1.p8"),
        *("new_user_credentials.csv", "gcp-credentials.yaml", "my_credentials", "credentials.txt", "credentials.ini"),
        *("terraform.tfvars.json", "serviceaccount.json", "google-service-account.json", "service_account-key.json"),
        *("private_key.json", "private_key.txt", "my-private-key.pk8", "secrets.txt", "secrets.properties", "secret"),
        *("secrets.yaml.j2", "secret.yaml.txt", "client_secret.txt", "api_key", "api_keys.txt", "my_api_key.json"),
        *("openai_key.txt", "secret_key.txt", "access_token", "access_token.txt", "github_token.txt", "my_auth_token"),
        *("vault_token", "huggingface-token.txt", "old_id_rsa", "github_id_rsa", "deploy-id_ed25519", "x_id_dsa.bak"),
        *("id_rsa.c", "id_rsa.h", "id_rsa.r", "id_rsa.m", "id_rsa.json", "id_ecdsa.yaml"),
        *("creds.json", "gcp-creds.json", "secretinfo.json", "id_rsa.bin", "prod.env.sh", "server.pem.txt"),
        *(".aws/cacert.pem", ".aws/vocab/token.txt", "my_cacert.pem", "public.key", "cacert.pem/server.key"),
        *("secretary-secret.json", "secretary.env", "secretary.key", "credentials.env", "Secret.ENV.yaml"),
    ],
)
def test_names_of_secrets_stay_beside_such_code(tmp_path, path):
    write(tmp_path, path)
    assert find(tmp_path, path, "*", ".*").going == {}
    assert Ignored(str(tmp_path)).is_secret(path)


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

"""The files that go along with a job are those that its code imports and opens, and no others."""

import ast
import itertools
import os
from pathlib import Path

import pytest

from jupyter_gq.lab.project.freezing import freeze
from jupyter_gq.lab.project.ignored import IGNORE_FILE, Ignored
from jupyter_gq.lab.project.needed import Caps, Code, Needed, NeededFile, find_needed
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.refusal import RefusedRequest

CAPS = Caps(file=1000, job=2000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "home" / "ann" / "work"
    root.mkdir(parents=True)
    return root


def write(folder: Path, path: str, content: str = "") -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def find(folder: Path, *sources: str, patterns: tuple[str, ...] = (), written: tuple[str, ...] = ()) -> Needed:
    trees = [ast.parse(source) for source in sources]
    return find_needed(folder, Code(trees=trees, written=written), patterns, CAPS)


def going(folder: Path, *sources: str, **options: tuple[str, ...]) -> list[str]:
    return sorted(find(folder, *sources, **options).going)


def test_modules_that_code_in_a_magic_imports_go_along(folder):
    write(folder, "nets.py", "import top")
    write(folder, "top.py")
    magic = "get_ipython().run_cell_magic('time', '', 'import nets')"
    assert going(folder, magic) == ["nets.py", "top.py"]


def parse(*sources: str) -> Code:
    return Code(trees=[tree for source in sources if (tree := parse_cell(source)) is not None])


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nnet = importlib.import_module('nets.conv')",
        "net = __import__('nets.conv')",
        "import runpy\nrunpy.run_module('nets.conv')",
        "%load_ext nets.conv",
        "%aimport nets.conv",
        "%run -m nets.conv",
        "!torchrun --nproc_per_node=2 -m nets.conv --epochs 3",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'nets.conv'])",
        "%%python3\nimport nets.conv",
    ],
)
def test_modules_that_are_named_otherwise_than_by_import_go_along(folder, source):
    write(folder, "nets/__init__.py")
    write(folder, "nets/conv.py")
    write(folder, "nets.txt")
    assert sorted(find_needed(folder, parse(source), [], CAPS).going) == ["nets/__init__.py", "nets/conv.py"]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("import glob\nglob.glob('data/*.csv')", ["data/a.csv", "data/ü b.csv"]),
        ("import glob\nglob.glob('*.csv')", ["top.csv"]),
        ("import glob\nglob.glob('**/*.png', recursive=True)", ["data/deep/c.png"]),
        ("from pathlib import Path\nlist(Path().rglob('*.png'))", ["data/deep/c.png"]),
        ("load('csv', files='data/*.csv')", ["data/a.csv", "data/ü b.csv"]),
        ("for n in names: open('data/{}.csv'.format(n))", ["data/a.csv", "data/ü b.csv"]),
        ("for n in range(3): open('data/deep/%s.png' % n)", ["data/deep/c.png"]),
        ("print('*'); re.compile('.*'); sql('SELECT * FROM t')", []),
        ("import glob\nglob.glob('*')", []),
        ("!cat data/a.csv|wc", ["data/a.csv"]),
        ("import os\nos.system('python run.py --table=data/a.csv')", ["data/a.csv", "run.py"]),
        ("%run run", ["run.py"]),
        ("from pathlib import Path\nhere: Path = Path.cwd()\nopen(here / f'run{\".py\"}')", ["run.py"]),
    ],
)
def test_files_that_match_patterns_and_words_of_commands_go_along(folder, source, files):
    for path in ("data/a.csv", "data/ü b.csv", "data/.hidden.csv", "data/deep/c.png", "top.csv", "run.py"):
        write(folder, path)
    assert sorted(find_needed(folder, parse(source), [], CAPS).going) == files


def test_a_long_text_with_many_slashes_is_compared_with_the_form_of_a_pattern_in_one_pass(folder):
    # A search that tried each slash as the last one of the folder would take an hour.
    write(folder, "data/a.csv")
    assert going(folder, f"decode('a{'/' * 300_000}', 'data/*.csv')") == ["data/a.csv"]


def test_a_path_in_a_variable_of_an_earlier_cell_is_known(folder):
    write(folder, "data/a.csv")
    write(folder, "data/b.csv")
    code = parse("DATA = 'data'", "import os\nopen(os.path.join(DATA, 'a.csv'))")
    assert sorted(find_needed(folder, code, [], CAPS).going) == ["data/a.csv"]
    code = parse("DATA = 'data'", "DATA = choose()", "import os\nopen(os.path.join(DATA, 'a.csv'))")
    assert not find_needed(folder, code, [], CAPS).going


def test_imported_modules_go_along_with_the_modules_that_they_import(folder):
    for path, content in {
        "model.py": "from nets import conv\nimport helpers.text as t",
        "nets/__init__.py": "",
        "nets/conv.py": "from .layers.dense import Dense\nfrom . import lazy",
        "nets/layers/__init__.py": "",
        "nets/layers/dense.py": "import top",
        "nets/lazy.py": "",
        "nets/weights.bin": "x",
        "helpers/text.py": "from .more import x\nimport sibling",
        "helpers/more.py": "",
        "helpers/sibling.py": "",
        "helpers/unused.py": "",
        "top.py": "",
        "unused.py": "",
    }.items():
        write(folder, path, content)
    assert going(folder, "def train():\n    import model, numpy") == [
        *("helpers/more.py", "helpers/sibling.py", "helpers/text.py", "model.py", "nets/__init__.py", "nets/conv.py"),
        *("nets/layers/__init__.py", "nets/layers/dense.py", "nets/lazy.py", "top.py"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "pd.read_csv('data/a.csv')",
        "pd.read_csv(filepath_or_buffer='data/a.csv')",
        "P = 'data/a.csv'\nload(P)",
        "open(Path('data') / 'a.csv')",
        "D = Path('data')\nwith (D / 'a.csv').open() as f: pass",
        "open(os.path.join('data', 'a.csv'))",
        "NAME = 'a'\nopen(f'data/{NAME}.csv')",
        "Path('data').joinpath('a.csv').read_text()",
        "get_ipython().system('wc -l data/a.csv; echo')",
        "get_ipython().run_line_magic('run', './data/a.csv --fast')",
        "load('data')",
    ],
)
def test_a_literal_path_goes_along_however_it_is_opened(folder, source):
    write(folder, "data/a.csv", "1,2")
    assert going(folder, source) == ["data/a.csv"]


def test_a_script_that_is_run_takes_its_modules_and_files_along(folder):
    write(folder, "train.py", "import nets\nopen('conf/a.yaml')")
    write(folder, "nets.py", "open(Path(__file__).parent / 'sizes.json')")
    write(folder, "conf/a.yaml")
    write(folder, "sizes.json")
    assert going(folder, "get_ipython().system('python train.py')") == [
        "conf/a.yaml",
        "nets.py",
        "sizes.json",
        "train.py",
    ]


def test_what_the_code_only_writes_and_a_word_that_is_a_folder_stay(folder):
    write(folder, "out.csv", "1")
    write(folder, "data/a.csv", "1")
    assert going(folder, "df.to_csv('out.csv'); row['data']", written=("out.csv",)) == []
    assert going(folder, "read('out.csv'); df.to_csv('out.csv')", written=("out.csv",)) == ["out.csv"]
    for path in ("Path('out.csv')", "Path(f'out.csv')", "Path(Path('out.csv')).expanduser()"):
        only_written = find(folder, f"{path}.write_text('x')", written=("out.csv",))
        assert (list(only_written.going), only_written.written) == ([], ["out.csv"]), path
        assert going(folder, f"{path}.write_text({path}.read_text())", written=("out.csv",)) == ["out.csv"], path
    read_elsewhere = find(folder, "read('out.csv')", "df.to_csv('out.csv')", written=("out.csv",))
    assert (list(read_elsewhere.going), read_elsewhere.written) == (["out.csv"], [])
    twice = find(folder, "a.to_csv('out.csv')", "b.to_csv('out.csv')", written=("out.csv", "out.csv"))
    assert (list(twice.going), twice.written) == ([], ["out.csv"])
    assert find(folder, "df.to_csv('out.csv')", written=("out.csv",)).written == ["out.csv"]
    assert find(folder, "df.to_csv('out.csv')", "read('out.csv'); 'out.csv'", written=("out.csv",)).written == []


@pytest.mark.parametrize(
    "path", [".env", "id_rsa", "keys/server.pem", ".ssh/config", "service-account-1.json", ".ENV", "Secrets.toml"]
)
def test_secrets_stay_by_name_by_folder_and_by_pattern_unless_their_owner_says_otherwise(folder, path):
    write(folder, path, "hunter2")
    needed = find(folder, f"load({path!r})", patterns=("*",))
    assert needed.going == {}
    assert needed.staying[path].why == "it may hold secrets"
    write(folder, ".jupyter-gq-ignore", f"!{path}\n!{path.split('/')[0]}/\n")
    assert going(folder, f"load({path!r})") == [path]


def test_a_secret_that_the_code_globs_stays_with_a_note(folder):
    write(folder, "sets/a.json")
    write(folder, "sets/token.json")
    needed = find(folder, "import glob\nfor path in glob.glob('sets/*.json'): open(path)")
    assert (list(needed.going), list(needed.staying), needed.secrets) == (
        ["sets/a.json"],
        ["sets/token.json"],
        ["sets/token.json"],
    )


def test_a_link_takes_no_secret_along_under_another_name(folder):
    write(folder, ".env", "hunter2")
    write(folder, ".ssh/id", "hunter2")
    (folder / "settings.cfg").symlink_to(".env")
    (folder / "dots").symlink_to(".ssh")
    needed = find(folder, "open('settings.cfg'); open('dots/id')", patterns=("*",))
    assert needed.going == {}
    assert {needed.staying[path].why for path in ("settings.cfg", "dots/id")} == {"it may hold secrets"}


def test_a_notebook_in_the_root_folder_takes_nothing_of_the_machine_along():
    needed = find(Path("/"), "open('proc/self/environ'); open('etc/passwd')")
    assert needed.going == {}
    assert {each.why for each in needed.staying.values()} == {"it belongs to the machine"}


def test_patterns_that_name_no_file_or_cannot_be_used_are_told(folder):
    for path in ("conf/a.yaml", "venv/e.csv", "venv/pyvenv.cfg"):
        write(folder, path)
    patterns = ("*.yaml", "conf/", "*.csv", "../../*.ipynb", "!b.yaml", "[", "!a[]", "x" * 1001)
    needed = find(folder, patterns=patterns)
    assert needed.unmatched == ["*.csv", "../../*.ipynb"]
    assert needed.unusable == ["[", "!a[]", "x" * 1001]


def test_patterns_add_files_and_the_ignore_file_takes_imports_and_folders_away(folder):
    for path in ("conf/a.yaml", "conf/deep/b.yaml", "conf/c.txt", ".git/d.yaml", "notes.md", "old.py", "venv/e.yaml"):
        write(folder, path)
    write(folder, "venv/pyvenv.cfg")
    assert going(folder, patterns=("*.yaml", "!b.yaml", "[")) == ["conf/a.yaml"]
    assert going(folder, "import old", patterns=("conf/",)) == [
        "conf/a.yaml",
        "conf/c.txt",
        "conf/deep/b.yaml",
        "old.py",
    ]
    write(folder, ".jupyter-gq-ignore", "old.py\n*.txt\n")
    assert going(folder, "import old\nload('conf')") == ["conf/a.yaml", "conf/deep/b.yaml"]


def test_large_data_stays_and_says_so(folder):
    write(folder, "large.csv", "x" * 1001)
    for name in ("a", "b", "c"):
        write(folder, f"{name}.csv", "x" * 900)
    write(folder, "many/1.png", "x" * 600)
    write(folder, "many/2.png", "x" * 600)
    needed = find(folder, "load('large.csv', 'a.csv', 'b.csv', 'c.csv', 'many')")
    assert sorted(needed.going) == ["a.csv", "b.csv"]
    assert {path: (file.bytes, file.why) for path, file in needed.staying.items()} == {
        "large.csv": (1001, "it has more than 1 KiB"),
        "c.csv": (900, "a job takes at most 2 KiB and 10000 files along"),
        "many": (None, "its files have more than 1 KiB"),
    }


def test_links_out_of_the_folder_and_what_is_no_file_stay(folder, tmp_path):
    write(tmp_path, "secret.txt", "hunter2")
    write(folder, "inside.txt", "1")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "in.txt").symlink_to("inside.txt")
    os.mkfifo(folder / "pipe")
    needed = find(folder, "load('out.txt', 'in.txt', 'pipe', 'elsewhere/secret.txt', 'elsewhere')", patterns=("*",))
    assert sorted(needed.going) == ["in.txt", "inside.txt"]
    assert {path: file.why for path, file in needed.staying.items()} == {
        "out.txt": "it is a link out of the notebook's folder",
        "elsewhere/secret.txt": "it is a link out of the notebook's folder",
        "elsewhere": "it is a link out of the notebook's folder",
        "pipe": "it is no regular file",
    }


def test_paths_outside_are_named_but_not_those_of_the_machine(folder, tmp_path):
    write(folder.parent, "data.csv", "1")
    paths = ("../data.csv", "/etc/passwd", "/dev/null", "..", str(folder.parent / "data.csv"), "/no/such/file")
    staying = find(folder, f"load{paths!r}").staying
    assert {path: file.why for path, file in staying.items()} == {
        "../data.csv": "it is outside of the notebook's folder",
        str(folder.parent / "data.csv"): "it is named by its full path",
    }


def test_a_search_that_takes_too_long_ends_and_says_so(folder, monkeypatch):
    for number in range(30):
        write(folder, f"many/{number}.txt")
    monkeypatch.setattr("jupyter_gq.lab.project.needed._MOST_ENTRIES", 20)
    found = find(folder, "open('many/29.txt')", patterns=("*.txt",))
    assert found.cut_short
    assert "many/29.txt" in found.going, "what the code names is found before what patterns name"


def test_a_search_ends_when_its_time_is_over_and_says_so(folder, monkeypatch):
    write(folder, "first.py")
    write(folder, "second.py")
    clock = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(60.0))
    monkeypatch.setattr("jupyter_gq.lab.project.needed.monotonic", lambda: next(clock))
    found = find(folder, "import first", "import second")
    assert (list(found.going), found.cut_short) == (["first.py"], True)


def test_a_search_ends_when_judging_the_files_of_a_folder_takes_too_long(folder, monkeypatch):
    for number in range(30):
        write(folder, f"many/{number}.txt")
    judged = []
    monkeypatch.setattr("jupyter_gq.lab.project.needed.monotonic", lambda: len(judged))  # a second for each file
    monkeypatch.setattr(Ignored, "is_secret", lambda _, path: judged.append(path) or False)
    assert find(folder, "load('many')").cut_short
    assert len(judged) < 10


def test_a_package_or_folder_that_many_modules_name_is_searched_once(folder, monkeypatch):
    names = [f"m{number}" for number in range(20)]
    for name in names:
        write(folder, f"pack/{name}.py", f"import pack\nopen({name!r})\nload('data')\n")
        write(folder, f"data/{name}.csv")
    write(folder, "pack/__init__.py")
    monkeypatch.setattr("jupyter_gq.lab.project.needed._MOST_ENTRIES", 200)
    found = find(folder, "import pack")
    assert (len(found.going), found.cut_short) == (41, False)


def test_a_name_that_modules_of_two_folders_share_is_looked_for_beside_each(folder):
    for place in ("a", "b"):
        write(folder, f"{place}/load.py", "import names\nopen('rows.csv')")
        write(folder, f"{place}/names.py")
        write(folder, f"{place}/rows.csv")
    expected = [f"{place}/{name}" for place in ("a", "b") for name in ("load.py", "names.py", "rows.csv")]
    assert going(folder, "import a.load, b.load") == expected


def test_a_pattern_with_any_folder_twice_is_looked_for_once(folder, monkeypatch):
    deep = "data/" + "/".join("abcdefghijklmnopqrstuvwxyz")
    write(folder, f"{deep}/x.csv")
    monkeypatch.setattr("jupyter_gq.lab.project.needed._MOST_ENTRIES", 300)
    found = find(folder, "from pathlib import Path\nlist(Path('data').rglob('**/*.csv'))")
    assert (list(found.going), found.cut_short) == ([f"{deep}/x.csv"], False)


def test_a_module_that_was_changed_is_read_again(folder):
    write(folder, "net.py", "import one")
    for name in ("one.py", "two.py"):
        write(folder, name)
    assert going(folder, "import net") == ["net.py", "one.py"]
    write(folder, "net.py", "import two")
    assert going(folder, "import net") == ["net.py", "two.py"]


@pytest.mark.parametrize("pattern", ["[z-a]", "*a" * 25 + "b", "[b-a] runs/", "x" * 5000])
def test_a_pattern_that_is_invalid_or_too_costly_does_no_harm(folder, pattern):
    name = "a" * 200 + ".csv"
    write(folder, name)
    write(folder, ".jupyter-gq-ignore", f"{pattern}\n!{pattern}\n")
    assert going(folder, f"open({name!r})", patterns=(pattern,)) == [name]


def test_a_line_of_the_ignore_file_with_many_stars_ignores_at_least_what_it_names(folder):
    write(folder, "runs/a-b-c-d-e.csv")
    write(folder, ".jupyter-gq-ignore", "runs/*a*b*c*d*\n")
    assert going(folder, "load('runs')") == []


def test_a_comment_of_the_ignore_file_with_many_stars_ignores_nothing(folder):
    write(folder, "helpers.py")
    write(folder, ".jupyter-gq-ignore", "# ******** data ********\n#*******\n")
    assert going(folder, "import helpers") == ["helpers.py"]


@pytest.mark.parametrize("pattern", ["**/a/" * 12 + "b", "*a*/" * 12 + "b", "**/*a*/" * 12 + "b"])
def test_a_pattern_of_many_costly_names_does_no_harm(folder, pattern):
    """Without a bound over all names, the first file would be matched for years."""
    name = "aaaaaaaaaaaa/" * 30 + "c.csv"
    write(folder, name)
    write(folder, ".jupyter-gq-ignore", f"!{pattern}\n")
    assert going(folder, f"open({name!r})", patterns=(pattern,)) == [name]
    write(folder, ".jupyter-gq-ignore", f"{pattern}\n")
    write(folder, "a/" * 12 + "b", "named by each of the patterns")
    assert going(folder, f"load({'a/' * 12!r})") == []


def test_what_lies_too_deep_to_be_matched_stays(folder):
    write(folder, "a/" * 40 + "near.csv")
    write(folder, "a/" * 60 + "far.csv")
    assert going(folder, "", patterns=("*.csv",)) == ["a/" * 40 + "near.csv"]


@pytest.mark.parametrize("text", ["\0", "a" * 5000, "~", ".", "", "data\n.csv", "\udcff", "a/" * 300])
def test_a_text_that_is_no_path_does_no_harm(folder, text):
    assert find(folder, f"load({text!r})") == Needed()


def test_frozen_files_have_the_digests_of_their_parts(folder):
    write(folder, "a.txt", "x")
    write(folder, "empty.txt")
    os.utime(folder / "a.txt", (1_700_000_000.5, 1_700_000_000.5))
    frozen, parts = freeze(folder, find(folder, "load('a.txt', 'empty.txt')").going.values(), 100)
    assert frozen[0].modified_at == 1_700_000_000.5
    assert [(file.path, file.bytes, len(file.parts)) for file in frozen] == [("a.txt", 1, 1), ("empty.txt", 0, 0)]
    assert list(parts.values()) == [b"x"]


def test_a_file_that_grew_within_the_cap_is_frozen_whole(folder):
    write(folder, "a.txt", "x" * 10)
    needed = find(folder, "load('a.txt')").going.values()
    write(folder, "a.txt", "y" * 20)
    frozen, parts = freeze(folder, needed, 100)
    assert (frozen[0].bytes, list(parts.values())) == (20, [b"y" * 20])


def test_a_file_whose_size_is_not_known_beforehand_is_frozen_whole():
    needed = [NeededFile(path="version", bytes=0, why="opened", executable=False)]
    frozen, parts = freeze(Path("/proc"), needed, 10_000)
    assert list(parts.values()) == [Path("/proc/version").read_bytes()]
    with pytest.raises(RefusedRequest, match="version has grown meanwhile"):
        freeze(Path("/proc"), needed, 10)
    assert frozen[0].bytes > 10


def test_a_file_that_grew_or_went_away_is_named(folder):
    write(folder, "a.txt", "x")
    needed = find(folder, "load('a.txt')").going.values()
    write(folder, "a.txt", "x" * 101)
    with pytest.raises(RefusedRequest, match=r"a\.txt has grown"):
        freeze(folder, needed, 100)
    (folder / "a.txt").unlink()
    with pytest.raises(RefusedRequest, match=r"a\.txt cannot be read"):
        freeze(folder, needed, 100)
    os.mkfifo(folder / "a.txt")
    with pytest.raises(RefusedRequest, match=r"a\.txt cannot be read: it is no regular file"):
        freeze(folder, needed, 100)


def test_texts_that_double_with_each_line_do_no_harm(folder):
    write(folder, "data.csv")
    assert going(folder, "name = 'data'\n" + "name = name + name\n" * 60 + "open('data.csv')") == ["data.csv"]


def test_a_variable_that_is_made_longer_leads_to_the_longer_path_only(folder):
    for path in ("a", "ab", "abb"):
        write(folder, path)
    assert going(folder, "import m\npath = 'a'\npath = path + 'b'\nopen(path)") == ["a", "ab"]


def test_deep_modules_go_along_with_what_they_import(folder):
    write(folder, "deep.py", "total=" + "+".join("1" * 440) + "\nimport other\n")
    write(folder, "other.py")
    assert going(folder, "import deep") == ["deep.py", "other.py"]


def test_an_ignore_file_may_be_a_link_and_is_not_waited_for_if_it_is_a_pipe_or_a_device(folder, tmp_path):
    ignored, other = folder / IGNORE_FILE, tmp_path / "patterns"
    write(folder, "a.csv")
    write(folder, "b.csv")
    other.write_text("a.csv\n")
    ignored.symlink_to(other)
    assert going(folder, "open('b.csv')", patterns=("*.csv",)) == ["a.csv", "b.csv"]  # a pattern names what is ignored
    assert Ignored.read(folder).covers("a.csv")
    ignored.unlink()
    ignored.symlink_to("/dev/zero")
    assert not Ignored.read(folder).covers("a.csv")
    ignored.unlink()
    os.mkfifo(ignored)
    assert going(folder, "open('b.csv')") == ["b.csv"]


def test_a_file_of_patterns_with_a_mark_of_its_encoding_is_followed(folder: Path) -> None:
    (folder / IGNORE_FILE).write_bytes("data/private.csv\n".encode("utf-8-sig"))
    assert Ignored.read(folder).covers("data/private.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_of_patterns_in_another_encoding_is_a_problem(folder: Path, encoding: str) -> None:
    (folder / IGNORE_FILE).write_bytes("data/priv\u00e9.csv\n".encode(encoding))
    assert Ignored.read(folder).problem == "it is not UTF-8 text"

"""The bundle of a job is made from the cells of a notebook."""

import pytest

from jupyter_gq.client.bounds import MOST_ENTRIES
from jupyter_gq.client.models import Kernel
from jupyter_gq.lab.bundle import bundle
from jupyter_gq.lab.bundle.environment import ServerEnvironment
from jupyter_gq.lab.plan import plan
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, FilesPlan

HERE = ServerEnvironment(environ={}, usual=())
NO_FILES = FilesPlan(going=[], staying=[], notes=[])
PYTHON = Kernel(name="python3", argv=["/usr/bin/python3"])
RUNTIME = bundle.Runtime(server="", cwd="/home/ann", kernel=PYTHON, environment={})
R = Kernel(name="ir", display_name="R", language="R", argv=["/usr/bin/R"])


def code(cell_id, source, *tags):
    return {"cell_type": "code", "id": cell_id, "metadata": {"tags": list(tags)}, "source": source, "outputs": []}


def ran(cell_id, source, seconds=None, **flags):
    return {"cell_id": cell_id, "source": source, "seconds": seconds, **flags}


def a_request(*cells, targets=("t",), prefix=(), **fields):
    notebook = {"cells": list(cells) or [code("t", "train()")], "metadata": fields.pop("metadata", {})}
    return CellsRequest(
        notebook_path="a.ipynb", notebook=notebook, targets=list(targets), prefix=list(prefix), **fields
    )


def planned(request, kernel=PYTHON):
    return [(step.id, step.source, step.why) for step in bundle.plan_steps(request, kernel)]


def test_prefix_is_replayed_as_it_ran_and_in_run_order():
    request = a_request(
        code("a", "x = 'edited'"),
        code("b", "y = 1"),
        code("t", "train()"),
        prefix=[ran("b", "y = 1"), ran("a", "x = 1")],
    )
    assert planned(request) == [("b", "y = 1", "ran"), ("a", "x = 1", "ran"), ("t", "train()", "target")]


def test_cell_that_ran_twice_is_replayed_twice_under_unique_ids():
    request = a_request(prefix=[ran("a", "x = 1"), ran("a", "x += 1"), ran("a", "x += 1"), ran("a-run2", "z")])
    assert [step[0] for step in planned(request)] == ["a", "a-run2", "a-run3", "a-run2-run2", "t"]


def test_target_keeps_its_id_after_any_prefix():
    request = a_request(prefix=[ran("", "from_console()"), ran("not an id!", "y"), ran("x" * 80, "z")])
    ids = [step[0] for step in planned(request)]
    assert ids == ["replayed", "not-an-id-", "x" * 64, "t"]


def test_a_repeated_cell_never_takes_the_id_of_a_target():
    request = a_request(code("a-run2", "x"), targets=["a-run2"], prefix=[ran("a", "1"), ran("a", "2")])
    assert [step[0] for step in planned(request)] == ["a", "a-run3", "a-run2"]


def test_earlier_runs_of_a_target_are_not_replayed_but_give_its_duration():
    request = a_request(prefix=[ran("t", "train()", 3.0), ran("a", "x"), ran("t", "train()", 42.0)])
    steps = bundle.plan_steps(request, PYTHON)
    assert [(step.id, step.seconds) for step in steps] == [("a", None), ("t", 42.0)]


def test_a_cell_that_needs_what_only_a_target_makes_is_left_out_and_told():
    cells = [ran("load", "x = 1"), ran("t", "net = train(x)"), ran("score", "score = net.test()")]
    request = a_request(code("score", "score = net.test()"), code("t", "net = train(x)"), prefix=cells)
    steps = bundle.plan_steps(request, PYTHON)
    left_out = "# Left out: it needs net, and only the chosen cell makes that."
    assert [step.source for step in steps] == ["x = 1", left_out, "net = train(x)"]
    told = plan.describe_plan(request, steps, RUNTIME, HERE, NO_FILES).warnings
    assert [(each.index, each.message) for each in told if each.code != "deleted"] == [
        (2, "needs net, which only the cell that you send makes: left out")
    ]
    assert planned(request.model_copy(update={"capture": "c"}))[1][1] == "score = net.test()", "variables are there"


def test_a_cell_that_is_left_out_or_cut_keeps_its_title():
    cells = [ran("a", "job = jupyter_gq.submit('t')\nx = 1"), ran("b", "score = net.test()")]
    request = a_request(code("s", "net.eval()", "gq-setup"), code("t", "net = train()"), prefix=cells)
    shown = plan.describe_plan(request, bundle.plan_steps(request, PYTHON), RUNTIME, HERE, NO_FILES)
    assert [cell.title for cell in shown.prefix] == ["net.eval()", "job = jupyter_gq.submit('t')", "score = net.test()"]
    (told,) = [each.message for each in shown.warnings if each.cell_id == "s"]
    assert told == "“net.eval()” needs net, which only the cell that you send makes: left out."


def test_targets_run_in_the_order_of_the_document():
    request = a_request(code("one", "1"), code("two", "2"), targets=["two", "one"])
    assert [step[0] for step in planned(request)] == ["one", "two"]


def test_setup_cells_run_first_and_only_once():
    cells = [code("a", "x"), code("s", "import torch", "gq-setup"), code("s2", "seed()", "gq-setup"), code("t", "t()")]
    request = a_request(*cells, prefix=[ran("a", "x"), ran("s2", "seed()")])
    assert planned(request) == [
        ("s", "import torch", "setup"),
        ("a", "x", "ran"),
        ("s2", "seed()", "ran"),
        ("t", "t()", "target"),
    ]


def test_a_skipped_cell_never_runs():
    cells = [code("a", "explore()", "gq-skip"), code("b", "x", "gq-skip", "gq-setup"), code("t", "t()")]
    assert planned(a_request(*cells, prefix=[ran("a", "explore()")])) == [("t", "t()", "target")]
    with pytest.raises(RefusedRequest, match="gq-skip"):
        bundle.plan_steps(a_request(*cells, targets=["a"]), PYTHON)


def test_a_cell_that_may_raise_keeps_its_tag():
    cells = [code("a", "1 / 0", "raises-exception", "mine"), code("b", "x"), code("t", "2 / 0", "raises-exception")]
    request = a_request(*cells, prefix=[ran("a", "1 / 0"), ran("b", "x")])
    made = bundle.make_bundle(request, bundle.plan_steps(request, PYTHON), RUNTIME).notebook["cells"]
    assert [cell["metadata"].get("tags", []) for cell in made] == [["raises-exception"], [], ["raises-exception"]]


def test_whole_notebook_is_every_code_cell_that_is_not_empty():
    cells = [
        {"cell_type": "markdown", "id": "m", "source": "text"},
        code("a", ["x = 1\n", "y = 2"]),
        code("empty", ""),
        code("skipped", "z", "gq-skip"),
        code("b", "x + y"),
    ]
    request = a_request(*cells, mode="notebook", targets=[])
    assert planned(request) == [("a", "x = 1\ny = 2", "target"), ("b", "x + y", "target")]
    with pytest.raises(RefusedRequest, match="no code cell"):
        bundle.plan_steps(a_request(cells[0], mode="notebook", targets=[]), PYTHON)


@pytest.mark.parametrize("mode", ["notebook", "replay"])
def test_a_chosen_cell_that_sends_jobs_is_refused_with_its_number(mode):
    sender = "import jupyter_gq\njob = jupyter_gq.submit(f)"
    request = a_request(code("a", "x = 1"), code("t", sender), mode=mode, targets=["t"])
    with pytest.raises(RefusedRequest, match=r"Cell 2 sends jobs .*`if not jupyter_gq\.in_job\(\):`"):
        bundle.plan_steps(request, PYTHON)
    guarded = code("t", "import jupyter_gq\nif not jupyter_gq.in_job():\n    jupyter_gq.submit(f)")
    train, skipped = code("m", "%%train\nfit()"), code("s", sender, "gq-skip")
    request = a_request(guarded, train, skipped, mode=mode, targets=["t"])
    assert [step[0] for step in planned(request)] == (["t", "m"] if mode == "notebook" else ["t"])


def test_what_needs_the_result_of_a_cell_that_sent_itself_is_left_out_and_told():
    magic = "%%train --wait --returns b\nb = a * 2"
    prefix = [ran("a", "a = 5"), ran("m", magic), ran("p", "print(b)"), ran("n", "%%train\nfit()")]
    request = a_request(code("t", "print(a, b)"), prefix=prefix)
    assert [step[0] for step in planned(request)] == ["a", "m", "p", "t"]
    assert [step.is_cut for step in bundle.plan_steps(request, PYTHON)] == [False, True, True, False]
    notes = plan.describe_plan(request, bundle.plan_steps(request, PYTHON), RUNTIME, HERE, NO_FILES).warnings
    told = [note for note in notes if note.code == "sends_jobs"]
    assert [note.index for note in told] == [1, 2, None]
    assert "Not defined in the job" in told[-1].message
    assert told[-1].message.split(": ")[1].startswith("b.")


def test_a_question_for_the_options_of_the_magic_is_not_asked_again_in_the_job():
    prefix = [ran("h", "%train --help\n"), ran("a", "%train_it\nx"), ran("b", "%train --help\ny = 1")]
    assert [step[0] for step in planned(a_request(prefix=prefix))] == ["a", "b", "t"]


def test_a_job_remembers_which_cells_its_user_left_out_if_that_is_known():
    left_out = [["a", "a"], [], None, ["a", "bad\n", "half \ud83d"], ["a"] * (MOST_ENTRIES + 1)]
    requests = [a_request(left_out_cells=cells) for cells in left_out]
    made = [bundle.make_bundle(each, bundle.plan_steps(each, PYTHON), RUNTIME).manifest for each in requests]
    kept = [manifest.left_out_cells for manifest in made]
    assert kept == [["a", "a"], [], None, ["a"], ["a"] * MOST_ENTRIES]


@pytest.mark.parametrize(
    ("source", "said"),
    [("\n  ", "Cell 1 is empty: "), ("# soon\n  # or later", "Cell 1 has only comments: ")],
)
def test_a_cell_with_nothing_to_run_is_refused_with_what_it_has(source, said):
    with pytest.raises(RefusedRequest) as refused:
        bundle.plan_steps(a_request(code("t", source), targets=["t"]), PYTHON)
    assert refused.value.problem.message == f"{said}there is nothing to run. Write some code first."


@pytest.mark.parametrize(
    ("cells", "target", "expected"),
    [
        ([{"cell_type": "raw", "id": "t", "source": "x"}], "t", "not_a_code_cell"),
        ([code("t", "\n  ")], "t", "empty_cell"),
        ([code("t", "# soon")], "t", "empty_cell"),
        ([code("t", "x")], "other", "unknown_cell"),
        ([code("t", "x = = 1")], "t", "syntax_error"),
    ],
)
def test_cells_that_cannot_run_are_refused(cells, target, expected):
    with pytest.raises(RefusedRequest) as refused:
        bundle.plan_steps(a_request(*cells, targets=[target]), PYTHON)
    assert (refused.value.problem.code, refused.value.problem.field) == (expected, "targets")


@pytest.mark.parametrize("language", ["python", "R"])
@pytest.mark.parametrize(
    ("targets", "prefix", "field", "said"),
    [
        (10_001, 0, "targets", "A job runs at most 10,000 cells, and 10,001 are chosen. Send them in several jobs."),
        (1, 10_001, "prefix", "At most 10,000 cells can run first, and 10,001 would. Leave some of them out."),
        (10_000, 0, "", ""),
    ],
)
def test_more_cells_than_a_job_can_have_are_refused_as_cells(language, targets, prefix, field, said):
    ids = [f"t{number}" for number in range(targets)]
    request = a_request(*(code(each, "1") for each in ids), targets=ids, prefix=[ran("a", "2")] * prefix)
    kernel = PYTHON if language == "python" else R
    if not said:
        assert len(bundle.plan_steps(request, kernel)) == targets
        return
    with pytest.raises(RefusedRequest) as refused:
        bundle.plan_steps(request, kernel)
    assert (str(refused.value), refused.value.problem.field) == (said, field)


def test_no_cell_of_a_notebook_is_lost_because_another_one_has_its_id():
    cells = [code("a", "x = 1"), {"cell_type": "markdown", "id": "a", "source": ""}, code("a", "print(x)")]
    request = a_request(*cells, mode="notebook", targets=[])
    assert planned(request) == [("a", "x = 1", "target"), ("a-3", "print(x)", "target")]
    request = a_request(code("a", "x"), code("a", "y"), code("a-2", "z"), mode="notebook", targets=[])
    assert [source for _, source, _ in planned(request)] == ["x", "y", "z"]
    assert len({cell for cell, _, _ in planned(request)}) == 3
    longest = [code("a" * 64, source) for source in "xyz"]
    assert len(planned(a_request(*longest, mode="notebook", targets=[]))) == 3


@pytest.mark.parametrize("source", [5, None, [5], {"text": "x"}])
def test_a_cell_whose_source_is_no_text_is_named(source):
    with pytest.raises(RefusedRequest, match="Cell 2 has a source that is neither text nor a list of lines"):
        bundle.plan_steps(a_request(code("t", "x"), code("u", source)), PYTHON)


def test_cells_of_other_languages_are_not_checked():
    assert planned(a_request(code("t", "x <- c(1, 2")), R) == [("t", "x <- c(1, 2", "target")]
    assert planned(a_request(code("t", "# only a comment")), R)


def test_syntax_newer_than_this_python_is_a_warning_not_a_refusal():
    newer = {"language_info": {"name": "python", "version": "3.99.1"}}
    request = a_request(code("t", "novelty := := x"), metadata=newer)
    steps = bundle.plan_steps(request, PYTHON)
    assert [warned.code for warned in plan.describe_plan(request, steps, RUNTIME, HERE, NO_FILES).warnings] == [
        "syntax_error"
    ]


@pytest.mark.parametrize(
    "question", ["find_changed_names", "find_made_names", "find_read_variables", "find_warnings", "plan_assignments"]
)
def test_code_that_is_too_deep_for_one_question_leaves_a_plan_that_says_so(monkeypatch, question):
    read = getattr(plan, question)

    def read_endlessly(*given):
        return read(*given) if given == ([],) else read_endlessly(*given)

    monkeypatch.setattr(plan, question, read_endlessly)
    request = a_request(code("a", "x = 1"), code("t", "y = x"), code("b", "y"), prefix=[ran("a", "x = 1")])
    steps = bundle.plan_steps(request, PYTHON)
    shown = plan.describe_plan(request, steps, RUNTIME, HERE, NO_FILES)
    assert [cell.cell_id for cell in [*shown.prefix, *shown.targets]] == ["a", "t"]
    assert "nested too deeply" in shown.warnings[-1].message
    assert shown.returns == ([] if question == "find_made_names" else ["y"])


def test_warnings_name_the_cell_and_the_difference():
    request = a_request(
        code("a", "x = 2"),
        code("b", "y"),
        code("t", "name = input()"),
        prefix=[ran("a", "x = 1", 20.0), ran("gone", "z = 1", 15.0), ran("b", "y"), ran("t", "old")],
    )
    warnings = plan.describe_plan(request, bundle.plan_steps(request, PYTHON), RUNTIME, HERE, NO_FILES).warnings
    assert [(warned.code, warned.cell_id, warned.index) for warned in warnings] == [
        ("edited", "a", 0),
        ("deleted", "gone", 1),
        ("asks_for_input", "t", None),
        ("slow_prefix", None, None),
    ]
    assert "35 s" in warnings[-1].message


def test_a_replayed_cell_that_acts_has_run_once_already():
    writes = "df.to_csv('out.csv')"
    request = a_request(
        code("a", writes),
        code("s", "!make data", "gq-setup"),
        code("t", writes),
        prefix=[ran("a", writes, 1.0), ran("c", "db.execute('DROP TABLE t')"), ran("d", "open('x', 'w')", ran=False)],
    )
    warnings = plan.describe_plan(request, bundle.plan_steps(request, PYTHON), RUNTIME, HERE, NO_FILES).warnings
    assert [(warned.index, warned.message) for warned in warnings if warned.code != "deleted"] == [
        (None, "“!make data” runs the command make: runs in the job."),
        (0, "writes out.csv: ran once already; runs again in the job"),
        (1, "changes a database: ran once already; runs again in the job"),
        (2, "writes x: runs in the job"),
    ]


def test_a_database_in_memory_is_no_warning():
    prefix = [ran("a", "db = sqlite3.connect(':memory:')"), ran("b", "db.execute('CREATE TABLE t (x)')")]
    request = a_request(*(code(cell["cell_id"], cell["source"]) for cell in prefix), code("t", "1"), prefix=prefix)
    assert plan.describe_plan(request, bundle.plan_steps(request, PYTHON), RUNTIME, HERE, NO_FILES).warnings == []


def test_a_replayed_cell_that_cannot_be_parsed_is_refused_by_name():
    request = a_request(code("t", "1"), prefix=[ran("a", "x = 1"), ran("b", "for")])
    with pytest.raises(RefusedRequest) as refused:
        bundle.plan_steps(request, PYTHON)
    assert (refused.value.problem.code, refused.value.problem.field) == ("syntax_error", "prefix")
    assert "“for”" in refused.value.problem.message


def test_bundle_has_sources_hashes_and_origin_and_no_outputs():
    target = code("t", "train()") | {"outputs": [{"secret": 1}], "metadata": {"tags": [], "private": 1}}
    notebook = {"kernelspec": {"name": "python3"}, "widgets": {"state": {}}}
    request = a_request(target, prefix=[ran("a", "x = 1", 0.5)], metadata=notebook)
    runtime = bundle.Runtime(server="gpu", cwd="/home/ann", kernel=PYTHON, environment={"LANG": "C"})
    made = bundle.make_bundle(request, bundle.plan_steps(request, PYTHON), runtime)
    assert [(ref.cell_id, ref.source_hash, ref.seconds) for ref in made.manifest.prefix] == [
        ("a", bundle.hash_source("x = 1"), 0.5)
    ]
    assert [ref.cell_id for ref in made.manifest.targets] == ["t"]
    assert (made.manifest.cwd, made.manifest.environment) == ("/home/ann", {"LANG": "C"})
    assert made.notebook["metadata"] == {"kernelspec": {"name": "python3"}}
    assert [cell["outputs"] for cell in made.notebook["cells"]] == [[], []]
    assert [cell["metadata"] for cell in made.notebook["cells"]] == [{}, {}]


@pytest.mark.parametrize("cell_id", ["a\nb", "a\x00", "x" * 256, "a\u202eb", "a\ud83d"])
def test_a_cell_with_an_id_that_no_job_can_have_is_named_by_its_number(cell_id):
    request = a_request(code("a", "x"), code(cell_id, "train()"), targets=[cell_id])
    with pytest.raises(RefusedRequest, match=r"^Cell 2 has an id with .* Copy the cell, and send the copy") as refused:
        bundle.plan_steps(request, PYTHON)
    assert (refused.value.problem.code, refused.value.problem.field) == ("invalid_cell_id", "targets")


@pytest.mark.parametrize("cell_id", ["a\nb", "x" * 256])
def test_a_cell_that_runs_first_may_have_any_id(cell_id):
    request = a_request(code(cell_id, "x"), code("t", "train()"), prefix=[ran(cell_id, "x")])
    assert [step[2] for step in planned(request)] == ["ran", "target"]


@pytest.mark.parametrize("kernel", [PYTHON, R], ids=["Python", "R"])
def test_a_cell_with_half_a_character_is_named_and_is_no_syntax_error(kernel):
    half = "print('\ud83d')"
    for request, words in (
        (a_request(code("a", "x"), code("t", half)), "Cell 2 has half of a character"),
        (a_request(prefix=[ran("a", half)]), "The replayed cell “print('')” has half of a character"),
    ):
        with pytest.raises(RefusedRequest) as refused:
            bundle.plan_steps(request, kernel)
        assert refused.value.problem.code == "invalid_text"
        assert str(refused.value).startswith(words)
        str(refused.value).encode()

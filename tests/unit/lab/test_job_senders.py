"""What sends jobs is left out of the cells that run first in a job, and nothing else is."""

import pytest

from jupyter_gq.lab.bundle.job_senders import LEFT_OUT, leave_out_senders


def test_imports_and_functions_of_a_cell_that_sends_a_job_stay_and_what_needs_the_job_goes():
    kept, lost = leave_out_senders(
        [
            "import jupyter_gq\n\ndef f(): return 1\n\njob = jupyter_gq.submit(f, gpus=0)",
            "score = job.result()",
            "rate = 0.1; print(score)",
            "job = 3",
            "print(job)",
        ]
    )
    assert kept == [
        f"import jupyter_gq\ndef f():\n    return 1\n{LEFT_OUT}",
        LEFT_OUT,
        f"rate = 0.1\n{LEFT_OUT}",
        "job = 3",
        "print(job)",
    ]
    assert lost == {"score"}


@pytest.mark.parametrize(
    "cell",
    [
        "gq.submit(f)",
        "runs = gq.sweep(f, {'lr': [1]})",
        "send(f)",
        "%%time\nsend(f)",
        "%timeit -n 1 send(f)",
        "for lr in rates: gq.submit(f, lr)",
        "gq.job('job-1').wait()",
        "launch()",
    ],
)
def test_jobs_are_sent_under_any_name_of_the_package(cell):
    imports = "import jupyter_gq as gq\nfrom jupyter_gq import submit as send"
    kept, _ = leave_out_senders([imports, "def launch():\n    return gq.submit(f)", cell])
    assert kept[2] == LEFT_OUT
    assert kept[0] == imports
    assert kept[1].startswith("def launch")


@pytest.mark.parametrize(
    "cell",
    [
        "if not jupyter_gq.in_job():\n    jupyter_gq.submit(f)",
        "jupyter_gq.progress(1, 2)",
        "model = jupyter_gq.result('job-1')",
        "pool.submit(f)",
        "def later(): jupyter_gq.submit(f)",
        "%%bash\njupyter_gq.submit",
        "this is no Python, jupyter_gq.submit(",
    ],
)
def test_what_runs_in_a_job_stays_as_it_is(cell):
    assert leave_out_senders(["import jupyter_gq", cell]) == (["import jupyter_gq", cell], set())


@pytest.mark.parametrize(
    "line",
    [
        "--wait --returns model",
        "--returns=model,loss --wait",
        "--gpus 0 --returns 'loss, model' --wait",
        "--wait\u3000--returns\u00a0model",
    ],
)
def test_what_a_cell_that_sent_itself_has_assigned_is_lost(line):
    cells = ["model = None", f"%%train {line}\nmodel = fit()", "print(model)", "rows = 3"]
    kept, lost = leave_out_senders(cells)
    assert kept == ["model = None", LEFT_OUT, LEFT_OUT, "rows = 3"]
    assert "model" in lost


@pytest.mark.parametrize("line", ["", "--returns model", "--wait", "--wait --returns", "--wait --returns 'model"])
def test_a_cell_that_sent_itself_and_assigned_nothing_takes_no_name(line):
    cells = ["model = None", f"%%train {line}\nmodel = fit()", "print(model)"]
    assert leave_out_senders(cells)[0][2] == "print(model)"

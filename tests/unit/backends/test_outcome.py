"""How a run ended, from how its tasks ended."""

import pytest

from jupyter_gq.backends.local.ledger import Run
from jupyter_gq.backends.local.outcome import End, end_of_run, silent_end
from jupyter_gq.backends.protocol import Outcome


def a_run(**fields):
    return Run(job="job-1", number=1, owner="ann", tasks=(None,), launched_at=0.0, boot="", **fields)


def ends(*outcomes):
    return [End(outcome=outcome, sentence=f"{outcome}.") for outcome in outcomes]


S, F, P, K, L = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED, Outcome.KILLED, Outcome.LOST


@pytest.mark.parametrize(
    ("tasks", "outcome"),
    [
        ((S, S), S),
        ((S, P), P),
        ((P, K), K),
        ((K, L), L),
        ((L, F, S), F),
    ],
)
def test_the_worst_of_a_gang_counts(tasks, outcome):
    assert end_of_run(a_run(), ends(*tasks)).outcome is outcome


def test_the_task_for_which_the_others_were_stopped_counts_whatever_became_of_them():
    end = end_of_run(a_run(culprit=1), ends(F, L, K))
    assert end == End(outcome=L, sentence="Task 1 of 3: LOST.")


def test_a_single_task_speaks_for_itself():
    assert end_of_run(a_run(), ends(F)) == End(outcome=F, sentence="FAILED.")


def test_silence_after_a_stop_is_a_kill_and_otherwise_a_loss():
    assert silent_end(a_run(stop_asked=True), -15).outcome is K
    assert silent_end(a_run(), -9).sentence == (
        "The process ended without a result (killed, most often because the machine ran out of memory)."
    )
    assert "signal 11" in silent_end(a_run(), -11).sentence
    assert "exit code 0" in silent_end(a_run(), 0).sentence
    assert silent_end(a_run(), None).sentence == "The process ended without a result."

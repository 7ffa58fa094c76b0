"""Whoever follows a job asks less and less often while nobody answers, and then as often as before."""

from jupyter_gq.notebook.pace import LONGEST_PAUSE, Pace


def test_pauses_grow_while_nobody_answers_and_end_with_an_answer():
    pace = Pace(1.0)
    assert pace.next_pause(answered=True) == 1.0
    assert [pace.next_pause(answered=False) for _ in range(5)] == [2.0, 4.0, 8.0, LONGEST_PAUSE, LONGEST_PAUSE]
    assert pace.next_pause(answered=True) == 1.0
    assert pace.next_pause(answered=False) == 2.0

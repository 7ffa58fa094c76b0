"""The log of a run holds its outputs as readable text."""

import io

from jupyter_gq.runner.files.run_log import RunLog


def a_text(text: str) -> dict:
    return {"output_type": "stream", "name": "stdout", "text": text}


def test_only_text_continues_a_line_of_the_log() -> None:
    file = io.StringIO()
    run_log = RunLog(file)
    picture = {"output_type": "display_data", "data": {"image/png": "..."}, "metadata": {}}
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\x1b[31mE\x1b[0m", "end"]}
    run_log.begin_cell("replayed cell 1 of 1 (`a`)")
    for output in (a_text("one "), a_text("two"), picture, a_text("three"), error, a_text("four")):
        run_log.add(output)
    run_log.end_line()
    run_log.end_line()
    assert file.getvalue() == "--- replayed cell 1 of 1 (`a`)\none two\n[image/png]\nthree\nE\nend\nfour\n"

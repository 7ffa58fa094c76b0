"""The log of a run holds its outputs as readable text."""

import io

from jupyter_gq.runner.files.run_log import RunLog


def test_only_text_continues_a_line_of_the_log() -> None:
    file = io.StringIO()
    run_log = RunLog(file)

    def a_text(text: str) -> dict:
        return {"op": "append", "output": {"output_type": "stream", "name": "stdout", "text": text}}

    picture = {"output_type": "display_data", "data": {"image/png": "..."}, "metadata": {}}
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\x1b[31mE\x1b[0m", "end"]}
    run_log.write([{"op": "run", "state": "start"}])
    run_log.write([{"op": "cell", "cell": "a", "role": "prefix", "state": "start"}])
    run_log.write([a_text("one "), a_text("two")])
    run_log.write([{"op": "append", "output": picture}, a_text("three")])
    run_log.write([{"op": "append", "output": error}, a_text("four")])
    run_log.end_line()
    run_log.end_line()
    assert file.getvalue() == "--- replayed cell a\none two\n[image/png]\nthree\nE\nend\nfour\n"

"""The log reads like what was seen."""

import io

from jupyter_gq.runner.files.journal import Journal


def test_text_goes_on_and_everything_else_begins_a_line() -> None:
    file = io.StringIO()
    journal = Journal(file)

    def a_text(text: str) -> dict:
        return {"op": "append", "output": {"output_type": "stream", "name": "stdout", "text": text}}

    picture = {"output_type": "display_data", "data": {"image/png": "..."}, "metadata": {}}
    error = {"output_type": "error", "ename": "E", "evalue": "", "traceback": ["\x1b[31mE\x1b[0m", "end"]}
    journal.write([{"op": "run", "state": "start"}])
    journal.write([{"op": "cell", "cell": "a", "role": "prefix", "state": "start"}])
    journal.write([a_text("one "), a_text("two")])
    journal.write([{"op": "append", "output": picture}, a_text("three")])
    journal.write([{"op": "append", "output": error}, a_text("four")])
    journal.end_line()
    journal.end_line()
    assert file.getvalue() == "--- replayed cell a\none two\n[image/png]\nthree\nE\nend\nfour\n"

"""The executed notebook is made from pages of pieces, and a page costs no more than its own length."""

import pytest

from jupyter_gq.client.outputs import fold as outputs
from jupyter_gq.client.outputs.executed import ShownOutputs


def a_piece(seq: int, text: str) -> dict:
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return {"op": "append", "seq": seq, "run": 1, "cell": "a", "role": "target", "output": output}


@pytest.mark.parametrize("text", ["epoch\n", ".", "\r5 %\nepoch"])
def test_a_page_costs_no_more_than_its_own_length(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Counted in the characters of the streams that are begun, and of those that are put together."""
    handled = []

    class CountedStream(outputs._Stream):
        def __init__(self, text: str) -> None:
            handled.append(len(text))
            super().__init__(text)

        def join(self) -> str:
            joined = super().join()
            handled.append(len(joined))
            return joined

    monkeypatch.setattr(outputs, "_Stream", CountedStream)
    shown = ShownOutputs()
    pages, size = 200, 10
    for page in range(pages):
        shown.take([a_piece(page * size + number + 1, text) for number in range(size)])
    assert len(shown.outputs["a"]) == 1
    assert sum(handled) <= 2 * pages * size * len(text)
    assert shown.seq == pages * size


def test_outputs_that_somebody_looks_at_go_on_with_the_next_page() -> None:
    shown = ShownOutputs()
    for seq, text in enumerate(["epoch 1\n", "5 %", "\r9 %\n"], start=1):
        shown.take([a_piece(seq, text)])
        assert shown.outputs["a"][0]["text"].startswith("epoch 1\n")
    assert shown.outputs["a"][0]["text"] == "epoch 1\n9 %\n"

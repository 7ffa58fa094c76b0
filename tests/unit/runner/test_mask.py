"""The values of secrets are hidden wherever they stand literally, also if they come in two parts."""

import pytest

from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.runner.mask import Mask
from jupyter_gq.runner.output.recorder import Recorder
from jupyter_gq.runner.result import describe_failure, hide_secrets

SECRET = "hf_hunter2"


def a_stream(text: str, name: str = "stdout") -> dict[str, str]:
    return {"name": name, "text": text}


def test_each_value_is_hidden_and_the_longest_first() -> None:
    mask = Mask(["hunter2hunter", "hunter2"])
    assert mask.hide("hunter2hunter, hunter2, hunter") == "***, ***, hunter"
    assert mask.hide_bytes(b"\xffhunter2\xff") == b"\xff***\xff"


def test_short_values_hide_no_ordinary_words() -> None:
    assert Mask(["true", "", " "]).hide("true story") == "true story"


def test_of_a_value_of_several_lines_each_long_line_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nabc\n"
    assert Mask([key]).hide("see MIIEvQIBADANBgkqhkiG and abc") == "see *** and abc"


def test_all_texts_of_json_data_are_hidden() -> None:
    data = {"a": [f"x{SECRET}", 1, None], SECRET: {"b": True}}
    assert Mask([SECRET]).hide_all(data) == {"a": ["x***", 1, None], "***": {"b": True}}
    assert Mask().hide_all(data) is data


def test_data_that_is_nested_too_deeply_is_ignored() -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    recorder = Recorder(lambda pieces: None, now=0.0, mask=Mask([SECRET]))
    assert recorder.hide({"data": deep}) is None


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_value_that_comes_in_two_parts_is_hidden(cut: int) -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0, mask=Mask([SECRET]))
    cell = recorder.cell_output("c", "target")
    recorder.append(cell, a_stream("token " + SECRET[:cut]), "stream", None)
    recorder.flush(10.0)
    recorder.append(cell, a_stream(SECRET[cut:] + " end"), "stream", None)
    recorder.flush(20.0, everything=True)
    assert fold(sent)["c"][0]["text"] == "token *** end"
    assert SECRET[: max(cut, 4)] not in str(sent)


def test_text_that_only_begins_like_a_secret_is_shown_in_the_end() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0, mask=Mask([SECRET]))
    cell = recorder.cell_output("c", "target")
    recorder.append(cell, a_stream("a hf_"), "stream", None)
    recorder.append(cell, {"data": {"text/plain": "c"}, "metadata": {}}, "display_data", None)
    recorder.append(cell, a_stream("d hf_hunter"), "stream", None)
    recorder.flush(10.0, everything=True)
    shown = [output.get("text") or output["data"]["text/plain"] for output in fold(sent)["c"]]
    assert shown == ["a hf_", "c", "d hf_hunter"]


def test_a_value_is_hidden_though_another_stream_comes_between_its_parts() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0, mask=Mask([SECRET]))
    cell = recorder.cell_output("c", "target")
    for now, (letter, other) in enumerate(zip(SECRET, "warning\n" * len(SECRET), strict=False)):
        recorder.append(cell, a_stream(letter), "stream", None)
        recorder.append(cell, a_stream(other, "stderr"), "stream", None)
        recorder.flush(10.0 * now)
    recorder.flush(1000.0, everything=True)
    shown = {name: "".join(o["text"] for o in fold(sent)["c"] if o["name"] == name) for name in ("stdout", "stderr")}
    assert shown == {"stdout": "***", "stderr": ("warning\n" * len(SECRET))[: len(SECRET)]}


def test_result_of_a_run_quotes_no_secret() -> None:
    result = hide_secrets(describe_failure(f"The cell raised ValueError: {SECRET}"), Mask([SECRET]))
    assert result.sentence == "The cell raised ValueError: ***"

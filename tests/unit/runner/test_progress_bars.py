"""Progress is read from the bars of libraries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.runner.output.progress_bars import find_progress


def text(shown: str) -> dict:
    return {"output_type": "stream", "name": "stderr", "text": shown}


def display(plain: str, html: str | None = None) -> dict:
    data = {"text/plain": plain} if html is None else {"text/plain": plain, "text/html": html}
    return {"output_type": "display_data", "data": data, "metadata": {}}


@pytest.mark.parametrize(
    ("output", "fraction", "said"),
    [
        (
            text("train:  37%|███▋      | 37/100 [00:12<00:20,  3.05it/s, loss=0.3]"),
            0.37,
            "train: 37/100 [00:12<00:20, 3.05it/s, loss=0.3]",
        ),
        (text(" 12%|#2        | 150/1.2k [00:01<00:09]"), 0.125, "150/1.2k [00:01<00:09]"),
        (text(" 50%|█████     |"), 0.5, ""),
        (display("widget |██████              | 3/10"), 0.3, "widget 3/10"),
        (display("Working... ━━━━━━━━━━━╸━━━━━━━━  40% 0:00:05"), 0.4, "Working... 0:00:05"),
        (
            text("Epoch 3/10\n\x1b[1m37/100\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━\x1b[0m \x1b[1m12s\x1b[0m loss: 0.3"),
            0.237,
            "Epoch 3/10: 37/100 12s loss: 0.3",
        ),
        (text("50/100 [=====>.....] - ETA: 3s"), 0.5, "50/100 - ETA: 3s"),
        (
            display(
                "<IPython.core.display.HTML object>",
                "<div>\n<progress value='37' max='148' style='width:300px'></progress>\n"
                "[ 37/148 00:12 < 00:36, 3.05 it/s, Epoch 1/4]\n</div><table></table>",
            ),
            0.25,
            "37/148 00:12 < 00:36, 3.05 it/s, Epoch 1/4",
        ),
        (
            display(
                "<IPython.core.display.HTML object>",
                "<div>\n<progress value='37' class='' max='148' style='width:300px'></progress>\n"
                " 25.00% [37/148 00:12&lt;00:36]\n</div>",
            ),
            0.25,
            "37/148 00:12<00:36",
        ),
        (
            display(
                "<HTML object>", "<progress value='2' max='24' style='x'></progress>\n [ 2/24 : < :, Epoch 0.12/3]"
            ),
            2 / 24,
            "2/24, Epoch 0.12/3",
        ),
        (text("acc 97% a|b:  37%|███▋      | 37/100 [00:12<00:20]"), 0.37, "acc 97% a|b: 37/100 [00:12<00:20]"),
        (text("训练 ✓:  37%|###7      | 37/100 [00:12<00:20]"), 0.37, "训练 ✓: 37/100 [00:12<00:20]"),
        (
            display("Epoch 2/9 ━━━━━━╺━━━━━━━━ 40/100 0:00:01 • 0:00:02 30.00it/s"),
            0.4,
            "Epoch 2/9 40/100 0:00:01 • 0:00:02 30.00it/s",
        ),
        (display("a.bin ━━━━━━╺━━━━━━━━ 40.0% • 4.0/10.0 MB • 0:00:05"), 0.4, "a.bin • 4.0/10.0 MB • 0:00:05"),
        (text(" 37% (37 of 100) |#######            | Elapsed Time: 0:00:12"), 0.37, "Elapsed Time: 0:00:12"),
        (
            text("on 3: |███████▍            | ▅▃▁ 37/100 [37%] in 2s (~3s, 14.2/s)"),
            0.37,
            "on 3: 37/100 [37%] in 2s (~3s, 14.2/s)",
        ),
        (text("Reading  [#############-----------------------]   37%  00:00:05"), 0.37, "Reading 00:00:05"),
    ],
)
def test_bars_of_libraries_are_read(output: dict, fraction: float, said: str) -> None:
    found = find_progress([output])
    assert found is not None
    assert found == (pytest.approx(fraction), said)


#: What libraries have written in jobs, of a state in the middle; long bars are shortened.
RECORDED = {
    "keras 3.15": (
        text(
            "Epoch 2/4\n\x1b[1m2/4\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━\x1b[0m "
            "\x1b[1m0s\x1b[0m 56ms/step - loss: 0.1538"
        ),
        (0.375, "Epoch 2/4: 2/4 0s 56ms/step - loss: 0.1538"),
    ),
    "lightning 2.6 with rich 15, in the validation": (
        display(
            "Epoch 0/2  \x1b[38;2;98;6;224m━━━━━━━━━\x1b[0m 8/8 \x1b[2m0:00:00 • 0:00:00\x1b[0m "
            "\x1b[2;4m12.91it/s\x1b[0m \x1b[3mloss: 0.001\x1b[0m\nValidation \x1b[38;2;98;6;224m━━━━\x1b[0m"
            "\x1b[38;5;237m╺\x1b[0m\x1b[38;5;237m━━━━\x1b[0m 4/8 \x1b[2m0:00:00 • 0:00:01\x1b[0m "
            "\x1b[2;4m16.73it/s\x1b[0m            \n"
        ),
        (0.5, "Validation 4/8 0:00:00 • 0:00:01 16.73it/s"),
    ),
    "lightning 2.6 with tqdm 4.70, in the validation": (
        display(
            "Validation\u2007DataLoader\u20070:\u2007\u200750% |████████████| "
            "\u20074/8\u2007[00:00<00:00,\u200715.64it/s]"
        ),
        (0.5, "Validation DataLoader 0: 4/8 [00:00<00:00, 15.64it/s]"),
    ),
    "transformers 5.24": (
        display(
            "<IPython.core.display.HTML object>",
            "\n    <div>\n      \n      <progress value='10' max='24' style='width:300px; height:20px; vertical-align: "
            "middle;'></progress>\n      [10/24 00:00 < 00:01, 12.33 it/s, Epoch 1.12/3]\n    </div>\n    "
            '<table border="1" class="dataframe">\n  <thead>\n <tr style="text-align: left;">\n      <th>Epoch</th>',
        ),
        (10 / 24, "10/24 00:00 < 00:01, 12.33 it/s, Epoch 1.12/3"),
    ),
    "datasets 5.2": (
        display("Map:\u2007\u200710% |██                  | \u20076/60\u2007[00:00<00:02,\u200726.52\u2007examples/s]"),
        (0.1, "Map: 6/60 [00:00<00:02, 26.52 examples/s]"),
    ),
    "tqdm.rich 4.70": (
        display(
            "riches\x1b[35m  30%\x1b[0m \x1b[38;2;249;38;114m━━━\x1b[0m\x1b[38;2;249;38;114m╸\x1b[0m"
            "\x1b[38;5;237m━━━━━━━\x1b[0m \x1b[32m9/30 \x1b[0m [ \x1b[33m0:00:00\x1b[0m < \x1b[36m0:00:01\x1b[0m , "
            "\x1b[31m31 it/s\x1b[0m ]\n"
        ),
        (0.3, "riches 30% 9/30 [ 0:00:00 < 0:00:01 , 31 it/s ]"),
    ),
    "rich 15, nested": (
        display(
            "epochs  \x1b[38;2;249;38;114m━━━━\x1b[0m\x1b[38;5;237m╺\x1b[0m\x1b[38;5;237m━━━━━━━━\x1b[0m "
            "\x1b[35m 33%\x1b[0m \x1b[36m-:--:--\x1b[0m\nbatches \x1b[38;2;249;38;114m━━━━━\x1b[0m\x1b[38;5;237m╺"
            "\x1b[0m\x1b[38;5;237m━━━━━━━\x1b[0m \x1b[35m 40%\x1b[0m \x1b[36m0:00:01\x1b[0m\n"
        ),
        (0.33, "epochs -:--:--"),
    ),
}


@pytest.mark.parametrize(("output", "found"), RECORDED.values(), ids=RECORDED)
def test_bars_are_read_as_they_were_recorded(output: dict, found: tuple[float, str]) -> None:
    assert find_progress([output]) == (pytest.approx(found[0]), found[1])


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "50% of the data",
        "| a | b |\n| 1 | 2 |\n",
        "1/2",
        "Epoch 3/10\n",
        "tests/unit 37/100 passed",
        "date |2026| 11/23",
        "val acc 96%| test | ok",
        "loss | 12 | 0.5/0.7",
        "class | 20 | 5/6 | x",
        "[1/2] ---------- 40% off",
        "----------",
        "100000%|██| 5/10",
        "train: -5%|█| -5/10",
        f"{'9' * 400}/{'9' * 400} ━━━━ 1s",
    ],
)
def test_other_text_is_no_bar(shown: str) -> None:
    assert find_progress([text(shown)]) is None


@pytest.mark.parametrize("epochs", ["1" + "0" * 400, "9" * 5001, "0"])
def test_a_line_above_a_bar_with_an_impossible_epoch_is_no_epoch(epochs: str) -> None:
    assert find_progress([text(f"Epoch 1/{epochs}\n37/100 ━━━━ 12s")]) == (0.37, "37/100 12s")


def test_the_text_has_no_control_characters() -> None:
    found = find_progress([text("a\0b\u202ec\x1b[31md: 50%|█████     | 1/2 [x]")])
    assert found == (0.5, "abcd: 1/2 [x]")


def test_only_the_last_outputs_are_read() -> None:
    """A bar far above counts no more, so that the search is bounded however much is printed."""
    bar = display("train 20% |██    | 1/5")
    assert find_progress([bar, *[text("x\n" * 1000)] * 30]) is not None
    assert find_progress([bar, *[text("x\n" * 1000)] * 40]) is None


def test_the_last_bar_of_a_stream_counts() -> None:
    assert find_progress([text("load 100%|███| 5/5 [0]\nloss 1\ntrain  20%|##  | 2/10 [0]")]) == (0.2, "train 2/10 [0]")
    assert find_progress([text("one  20%|##  | 1/5 [0]\ntwo  40%|##  | 2/5 [0]")]) == (0.4, "two 2/5 [0]")


def test_text_after_a_bar_hides_it_only_if_it_is_full() -> None:
    assert find_progress([text("load 100%|███| 5/5 [0]\n")]) == (1, "load 5/5 [0]")
    assert find_progress([text("load 100%|███| 5/5 [0]\nloss 1\n")]) is None
    assert find_progress([display("train 20% |██    | 1/5"), text("loss 1\n" * 30)]) == (0.2, "train 1/5")


def test_the_value_of_the_last_statement_hides_no_bar() -> None:
    history = {"output_type": "execute_result", "data": {"text/plain": "<History at 0x7f>"}, "metadata": {}}
    assert find_progress([text("load 100%|███| 5/5 [0]\n"), history]) == (1, "load 5/5 [0]")


def test_the_outermost_of_nested_bars_counts() -> None:
    inner = "inner  25%|██▌       | 1/4\x1b[A\n"
    assert find_progress([text(f"outer   0%|   | 0/3\n{inner}{inner}outer  33%|█  | 1/3\n{inner}")])[1] == "outer 1/3"
    assert find_progress([display("outer 10% |█   | 1/10"), display("inner 50% |██  | 1/2")])[1] == "outer 1/10"
    assert find_progress([display("outer 100% |███| 9/9"), display("next 50% |██  | 1/2")])[1] == "next 1/2"


def test_the_outermost_bar_is_known_when_inner_ones_are_removed() -> None:
    """tqdm has then overwritten a line of spaces, at whose end the cursor moves up."""
    inner = "inner:  25%|██▌       | 1/4 [00:00<00:00, 9.00it/s]\x1b[A\n"
    removed = "outer:  33%|███▎      | 1/3 [00:00<00:00, 2.13it/s]   \x1b[A\n"
    shown = f"outer:   0%|          | 0/3 [00:00<?, ?it/s]\n{inner}{inner}{removed}{inner}"
    assert find_progress([text(shown)]) == (pytest.approx(1 / 3), "outer: 1/3 [00:00<00:00, 2.13it/s]")
    end = "outer: 100%|██████████| 3/3 [00:01<00:00, 2.13it/s]"
    assert find_progress([text(f"{shown}{end}A")]) == (1, "outer: 3/3 [00:01<00:00, 2.13it/s]")
    unsent = f"{shown}inner:  75%|███████▌  | 3/4 [00:00<00:00, 9.00it/s]"
    assert find_progress([text(unsent)])[1].startswith("outer: 1/3")
    assert find_progress([text(f"{shown}next:  75%|███████▌  | 3/4 [00:00<00:00, 9.00it/s]")])[1].startswith("next: ")
    begun = "outer:   0%|          | 0/3 [00:00<?, ?it/s]\ninner:   0%|          | 0/4 [00:00<?, ?it/s]"
    assert find_progress([text(begun)])[1].startswith("outer: ")
    alike = "  0%|          | 0/4 [00:00<?, ?it/s]\n  25%|██▌       | 1/4 [00:00<00:00, 9.00it/s]\x1b[A\n"
    assert find_progress([text(alike)]) == (0, "0/4 [00:00<?, ?it/s]")


def test_html_bars_are_read_in_any_form() -> None:
    shown = (
        '<div><div><progress max="4" value="1"></progress> 25.00% [1/4 00:01&lt;00:03]</div><div></div>'
        '<div><progress max="10" value="5"></progress> 50.00% [5/10 00:00&lt;00:00... loss]</div></div>'
    )
    assert find_progress([display("<HTML object>", shown)]) == (0.25, "1/4 00:01<00:03")
    plain = "<progress value='3' max='4'></progress><b>three</b>"
    assert find_progress([display("<HTML object>", plain)]) == (0.75, "")
    assert find_progress([display("<HTML object>", "<progress max='4'></progress>")]) is None


def test_a_display_is_still_the_outermost_bar_after_prints() -> None:
    outer, inner = display("epochs: 25% |█████               | 1/4"), display("batches: 50% |██████████          | 2/4")
    assert find_progress([outer, text("loss 1\n"), inner])[1] == "epochs: 1/4"
    assert find_progress([outer, text("loss 1\n"), inner, text("loss 2\n")])[1] == "epochs: 1/4"
    assert find_progress([text("epochs: 25%|██▌       | 1/4"), text("loss 1\n"), inner])[1] == "batches: 2/4"


EMPTY_OF_RICH = "<pre style=\"white-space:pre;font-family:Menlo,'DejaVu Sans Mono'\"></pre>\n"
#: Bars whose loops were left before their ends, as their libraries show them.
LEFT = {
    "tqdm": [display("first: 25% |█████               ✗| 1/4")],
    "tqdm at 0": [display("first: 0% |                    ✗| 0/4")],
    "fastprogress": [
        display(
            "<HTML>", '<div><progress value="1" max="4" class="progress-bar-interrupted"></progress> 25% [1/4]</div>'
        )
    ],
    "rich": [display("first ━━━━━╸━━━━ 25% 0:00:05\n", "<pre>...</pre>"), display("", EMPTY_OF_RICH)],
}


@pytest.mark.parametrize("first", LEFT.values(), ids=LEFT)
def test_a_loop_that_was_left_hides_no_later_bar(first: list[dict]) -> None:
    second = display("second: 50% |██████████          | 2/4")
    assert find_progress([*first, second]) == (0.5, "second: 2/4")
    assert find_progress([*first, text("left\n"), second]) == (0.5, "second: 2/4")
    assert find_progress(first)[0] < 1
    assert find_progress([*first, text("left\n")]) is None


@given(st.lists(st.text(alphabet="█━#=>[]|% 0123456789/.kM\r\n\x1b[mAE", max_size=300).map(text), max_size=5))
def test_a_fraction_is_between_zero_and_one(outputs: list[dict]) -> None:
    found = find_progress(outputs)
    assert found is None or (0 <= found[0] <= 1 and len(found[1]) <= 200)

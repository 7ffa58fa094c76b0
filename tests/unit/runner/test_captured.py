"""Output widgets that show Output widgets: what is cleared goes from one place only, and leaves no place behind."""

import pytest

from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.runner.output.captured import MOST_OUTPUTS
from jupyter_gq.runner.output.cell_output import Piece
from jupyter_gq.runner.output.messages import VIEW
from jupyter_gq.runner.output.recorder import Recorder


@pytest.fixture
def recorder() -> Recorder:
    made = Recorder(lambda pieces: None, now=0.0)
    for widget in ("outer", "inner"):
        open_widget(made, widget, _model_name="OutputModel")
    return made


def open_widget(recorder: Recorder, widget: str, **state: object) -> None:
    recorder.apply_comm("comm_open", {"comm_id": widget, "data": {"state": state}})


def show(recorder: Recorder, widget: str) -> None:
    """Display the widget in the cell."""
    recorder.append(recorder.cell_output("c", "target"), a_view(widget), "display_data", None)


def print_in(recorder: Recorder, widget: str, text: str) -> None:
    recorder.capture(widget, {"name": "stdout", "text": text}, "stream", None)


def show_in(recorder: Recorder, outer: str, widget: str) -> None:
    recorder.capture(outer, a_view(widget), "display_data", None)


def a_view(widget: str) -> dict:
    return {"data": {VIEW: {"model_id": widget}, "text/plain": ""}, "metadata": {}}


def shown(recorder: Recorder) -> list[str]:
    return [text for output in recorder.outputs("c") if (text := output["data"]["text/plain"])]


@pytest.mark.parametrize("wait", [False, True])
def test_what_a_box_shows_stays_when_a_widget_beside_it_shows_it_no_longer(recorder: Recorder, wait: bool) -> None:
    open_widget(recorder, "box", _model_name="VBoxModel", children=["IPY_MODEL_inner", "IPY_MODEL_outer"])
    show(recorder, "box")
    print_in(recorder, "inner", "kept")
    show_in(recorder, "outer", "inner")
    recorder.clear_captured("outer", wait=wait)
    print_in(recorder, "outer", "last")
    assert sorted(shown(recorder)) == ["kept", "last"]


def test_a_widget_that_shows_itself_shows_what_follows(recorder: Recorder) -> None:
    show(recorder, "outer")
    show_in(recorder, "outer", "outer")
    print_in(recorder, "outer", "first")
    recorder.clear_captured("outer", wait=True)
    print_in(recorder, "outer", "last")
    assert shown(recorder) == ["last"]


def test_a_widget_that_is_shown_again_and_again_takes_no_further_places(recorder: Recorder) -> None:
    show(recorder, "outer")
    print_in(recorder, "inner", "of the inner one")
    for _ in range(3):
        recorder.clear_captured("outer", wait=True)
        show_in(recorder, "outer", "inner")
    places = len(recorder.outputs("c"))
    recorder.clear_captured("outer", wait=False)
    assert shown(recorder) == []
    show_in(recorder, "outer", "inner")
    assert (shown(recorder), len(recorder.outputs("c"))) == (["of the inner one"], places)
    assert places == 3, "the view of the outer widget, that of the inner one in it, and its text"


def test_the_last_of_very_many_outputs_are_shown_in_order_and_cleared(recorder: Recorder) -> None:
    show(recorder, "outer")
    print_in(recorder, "inner", "of the inner one")
    show_in(recorder, "outer", "inner")
    for number in range(5 * MOST_OUTPUTS):
        recorder.capture("outer", {"data": {"text/plain": str(number)}, "metadata": {}}, "display_data", None)
    last = shown(recorder)
    assert last == [str(number) for number in range(5 * MOST_OUTPUTS - len(last), 5 * MOST_OUTPUTS)]
    assert MOST_OUTPUTS // 2 <= len(last) <= MOST_OUTPUTS
    recorder.clear_captured("outer", wait=False)
    assert shown(recorder) == []


@pytest.mark.parametrize("place", ["cell", "outer"])
@pytest.mark.parametrize("content", ["text", "widget"])
def test_a_display_of_a_widget_that_is_updated_shows_what_it_is_updated_with(
    recorder: Recorder, place: str, content: str
) -> None:
    """An Output widget is shown first, whose captured text goes with it, and nothing of it comes back."""
    open_widget(recorder, "label", _model_name="LabelModel", value="of the label")
    print_in(recorder, "inner", "of the inner one")
    show(recorder, "outer")
    if place == "outer":
        recorder.capture("outer", a_view("inner"), "display_data", "id")
    else:
        recorder.append(recorder.cell_output("c", "target"), a_view("inner"), "display_data", "id")
    assert shown(recorder) == ["of the inner one"]
    update = {"data": {"text/plain": "done"}, "metadata": {}} if content == "text" else a_view("label")
    recorder.update_display("id", update)
    wanted = ["done"] if content == "text" else ["of the label"]
    assert shown(recorder) == wanted
    open_widget(recorder, "inner", layout="other")
    print_in(recorder, "inner", "more")
    assert shown(recorder) == wanted


def add_in(recorder: Recorder, widget: str, text: str) -> None:
    """Let the widget capture an output of its own."""
    recorder.capture(widget, {"data": {"text/plain": text}, "metadata": {}}, "display_data", None)


def fold_shown(pieces: list[Piece]) -> list[str]:
    """Return the texts of the outputs to which the pieces fold, with those that show nothing."""
    return [each["data"]["text/plain"] for each in fold(pieces).get("c", [])]


@pytest.fixture
def sent() -> list[Piece]:
    """Return the pieces that `sending` has emitted."""
    return []


@pytest.fixture
def sending(sent: list[Piece]) -> Recorder:
    """Return a recorder in whose cell a widget is shown."""
    made = Recorder(sent.extend, now=0.0)
    open_widget(made, "outer", _model_name="OutputModel")
    show(made, "outer")
    return made


def test_a_cell_has_no_places_for_outputs_that_a_widget_has_dropped(sending: Recorder, sent: list[Piece]) -> None:
    count = 5 * MOST_OUTPUTS + 3
    for number in range(count):
        add_in(sending, "outer", str(number))
        if number % 100 == 0:
            sending.flush(number)
    _, *texts = [output["data"]["text/plain"] for output in sending.outputs("c")]
    assert texts == [str(number) for number in range(count - len(texts), count)]
    sending.finish(count)
    assert fold_shown(sent)[1:] == texts


def test_a_job_that_has_ended_has_no_places_for_outputs_that_a_widget_has_cleared(
    sending: Recorder, sent: list[Piece]
) -> None:
    for number in range(30):
        add_in(sending, "outer", str(number))
    sending.append(sending.cell_output("c", "target"), {"data": {"text/plain": "below"}}, "display_data", None)
    sending.clear_captured("outer", wait=True)
    add_in(sending, "outer", "last")
    sending.flush(2.0, everything=True)
    add_in(sending, "outer", "of a later cell")
    sending.finish(3.0)
    assert fold_shown(sent)[1:] == ["last", "of a later cell", "below"]

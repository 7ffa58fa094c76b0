"""Widgets are rendered as text."""

import pytest

from jupyter_gq.runner.output.widgets import Widgets


def widgets(**models: dict) -> Widgets:
    known = Widgets()
    for name, state in models.items():
        assert known.apply({"comm_id": name, "data": {"state": state}}) == state
    return known


def test_boxes_are_rendered_from_left_to_right_and_from_top_to_bottom() -> None:
    known = widgets(
        a={"_model_name": "LabelModel", "value": "left"},
        b={"_model_name": "HTMLModel", "value": "<i>right</i> &amp; good"},
        row={"_model_name": "HBoxModel", "children": ["IPY_MODEL_a", "IPY_MODEL_unknown", "IPY_MODEL_b"]},
        page={"_model_name": "VBoxModel", "children": ["IPY_MODEL_row", "IPY_MODEL_a"]},
    )
    assert known.render("page") == "left right & good\nleft"


@pytest.mark.parametrize(
    ("state", "full"),
    [({"value": 0}, 0), ({"value": 50}, 10), ({"value": 5, "max": 4}, 20), ({"value": 2, "min": 1, "max": 3}, 10)],
)
def test_progress_bars_are_filled_by_their_value(state: dict, full: int) -> None:
    assert widgets(bar={"_model_name": "IntProgressModel", **state}).render("bar").count("█") == full


def test_a_control_is_rendered_as_its_name_and_value() -> None:
    assert widgets(x={"_model_name": "IntSliderModel", "description": "x", "value": 3}).render("x") == "x: 3"


@pytest.mark.parametrize(
    "state",
    [
        {"_model_name": "SliderModel"},
        {"_model_name": "SliderModel", "description": "range", "value": [1, 2]},
        {"_model_name": "SliderModel", "description": "", "value": 3},
        {"_model_name": "IntProgressModel", "max": 0, "value": 0},
        {"_model_name": "HBoxModel", "children": ["IPY_MODEL_x"]},
        {},
    ],
)
def test_widgets_without_text_are_rendered_as_none(state: dict) -> None:
    """A box that contains only itself is such a widget."""
    assert widgets(x=state).render("x") is None


def test_messages_without_state_change_nothing() -> None:
    known = Widgets()
    assert known.apply({"comm_id": "x", "data": {"method": "custom"}}) is None
    assert known.apply({"comm_id": "x"}) is None
    assert known.render("x") is None

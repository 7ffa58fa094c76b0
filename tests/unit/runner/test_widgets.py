"""Widgets are rendered as text."""

import pytest

from jupyter_gq.runner.output.widgets import MOST_PARTS, Widgets


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


def test_a_bar_whose_work_was_left_has_a_mark() -> None:
    state = {"_model_name": "FloatProgressModel", "value": 50, "bar_style": "danger"}
    assert widgets(bar=state).render("bar") == f"|{'█' * 10}{' ' * 10}✗|"


def choice(chosen: object) -> dict:
    return {"_model_name": "SelectModel", "_options_labels": ["left", "right"], "index": chosen}


@pytest.mark.parametrize(
    ("state", "value"),
    [
        ({"_model_name": "IntSliderModel", "value": 3}, "3"),
        ({"_model_name": "CheckboxModel", "value": False}, "False"),
        ({"_model_name": "FloatRangeSliderModel", "value": [0.5, 2]}, "0.5 to 2"),
        ({"_model_name": "PasswordModel", "value": "my-secret"}, "••••"),
        (choice(1), "right"),
        (choice([0, 1]), "left, right"),
        (choice(None), ""),
        (choice([7, "x"]), ""),
    ],
)
def test_a_control_is_rendered_as_its_name_and_value(state: dict, value: str) -> None:
    for name in ("x", "x:"):
        assert widgets(x={**state, "description": name}).render("x") == f"x: {value}"


def test_tabs_are_rendered_with_their_titles() -> None:
    known = widgets(
        a={"_model_name": "LabelModel", "value": "one"},
        b={"_model_name": "LabelModel", "value": "two"},
        tabs={
            "_model_name": "TabModel",
            "titles": ["First"],
            "children": ["IPY_MODEL_a", "IPY_MODEL_b", "IPY_MODEL_unknown"],
        },
    )
    assert known.render("tabs") == "First\n  one\ntwo"


@pytest.mark.parametrize(
    "state",
    [
        {"_model_name": "SliderModel"},
        {"_model_name": "SliderModel", "description": "dates", "value": [{}, {}]},
        {"_model_name": "SliderModel", "description": "", "value": 3},
        {"_model_name": "IntProgressModel", "max": 0, "value": 0},
        {"_model_name": "IntProgressModel", "max": 10**400, "value": 0},
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


def test_boxes_of_shared_widgets_are_cut_at_a_number_of_parts() -> None:
    known = widgets(
        a={"_model_name": "LabelModel", "value": "label"},
        box0={"_model_name": "HBoxModel", "children": ["IPY_MODEL_a"] * 30},
    )
    for number in range(7):
        state = {"_model_name": "VBoxModel", "children": [f"IPY_MODEL_box{number}"] * 3}
        known.apply({"comm_id": f"box{number + 1}", "data": {"state": state}})
    text = known.render("box7")
    assert 100 < text.count("label") <= MOST_PARTS
    assert text.endswith("\n[...]")
    assert known.render("box0") == " ".join(["label"] * 30)


def test_long_parts_count_as_several() -> None:
    known = widgets(
        a={"_model_name": "LabelModel", "value": "x" * 100_000},
        box={"_model_name": "VBoxModel", "children": ["IPY_MODEL_a"] * MOST_PARTS},
    )
    assert len(known.render("box")) < 400_000


def test_the_boxes_of_a_widget_follow_its_moves() -> None:
    known = widgets(
        a={"_model_name": "LabelModel"},
        row={"_model_name": "HBoxModel", "children": ["IPY_MODEL_a"]},
        page={"_model_name": "VBoxModel", "children": ["IPY_MODEL_row", "IPY_MODEL_page"]},
    )
    assert known.find_containing("a") == ["a", "row", "page"]
    assert known.find_contained("page") == ["page", "row", "a"]
    known.apply({"comm_id": "row", "data": {"state": {"children": []}}})
    assert known.find_containing("a") == ["a"]
    known.apply({"comm_id": "row", "data": {"state": {"children": ["IPY_MODEL_a"]}}})
    assert known.find_containing("a") == ["a", "row", "page"]
    known.close("row")
    assert known.find_containing("a") == ["a"]

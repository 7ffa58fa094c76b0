"""Pickles are loaded in an order in which code that runs meanwhile finds what it uses."""

import json

import pytest

from jupyter_gq.notebook.carrying.order import order_groups


class Model:
    """A class of the notebook."""


def read() -> None:
    """Do nothing."""


NAMESPACE = {"json": json, "Model": Model, "read": read, "m": Model(), "config": {}, "other": []}


@pytest.mark.parametrize(
    ("groups", "used", "expected"),
    [
        ("m Model json", {"m": "Model", "Model": "json"}, "json Model m"),
        ("m config json Model read", {"m": "Model", "Model": "read", "read": "config"}, "json read Model config m"),
        ("m Model read", {"m": "Model", "Model": "read", "read": "m"}, "read Model m"),
        ("Model read", {"Model": "read", "read": "Model"}, "read Model"),
        ("m config other", {}, "m config other"),
        ("m+config json other", {"config": "json other unknown"}, "json other m+config"),
        ("m other", {"m": "m other"}, "other m"),
    ],
    ids=["chain", "data by a function", "code uses data", "circle", "as they came", "group", "itself"],
)
def test_code_and_what_it_uses_come_first(groups: str, used: dict[str, str], expected: str) -> None:
    uses = {name: set(used.get(name, "").split()) for name in NAMESPACE}
    ordered = order_groups([tuple(each.split("+")) for each in groups.split()], uses, NAMESPACE)
    assert " ".join("+".join(names) for names in ordered) == expected


def test_a_long_chain_needs_no_recursion() -> None:
    names = [f"v{number}" for number in range(5000)]
    uses = {name: {later} for name, later in zip(names, [*names[1:], "v0"], strict=True)}
    ordered = order_groups([(name,) for name in names], uses, dict.fromkeys(names, 0))
    assert [name for (name,) in ordered] == names[::-1]

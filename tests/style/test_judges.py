"""The tests that judge the scheduling core by arithmetic of their own take nothing from it but its input and output."""

import ast

import pytest

from tests.style.english import ROOT, tracked

CORE = "jupyter_gq.scheduling"
#: What goes into the core and comes out, and the two ways to run it.
INTERFACE = {"cycle", "decision", "engine", "policy", "preview.admission"}
#: The accounts and the books of the core, which are judged themselves.
JUDGED = {
    "tests/property/balance.py": {
        "quota.accounts",
        "quota.usage_accounting",
        "state.cluster_index",
        "state.cycle_state",
    },
    "tests/property/histories.py": {"state.cluster_index", "state.cycle_state"},
    "tests/property/laws.py": {"state.cycle_state"},
    "tests/property/test_fragmentation.py": {"placement"},
}
#: Modules that compute what is right: they do not run the core either.
ARITHMETIC = ("tests/property/arithmetic.py", "tests/property/free.py", "tests/property/victims.py")
JUDGES = [*(name for name in tracked(["tests/property"]) if name.endswith(".py")), "tests/builders.py"]


def parts_of_the_core(source: str) -> set[str]:
    """Return the modules of the core that a module imports, by their names below the core."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name.removeprefix(f"{CORE}.") for name in found if name.startswith(CORE)}


@pytest.mark.parametrize("name", [*JUDGES, "tests/explanations.py"])
def test_a_judge_takes_nothing_from_the_core_but_its_input_and_output(name):
    assert parts_of_the_core((ROOT / name).read_text()) <= INTERFACE | JUDGED.get(name, set())


@pytest.mark.parametrize("name", ARITHMETIC)
def test_the_arithmetic_of_the_judge_takes_the_policy_only(name):
    assert parts_of_the_core((ROOT / name).read_text()) <= {"policy"}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("from jupyter_gq.scheduling.evict.rights import may_take", {"evict.rights"}),
        ("import jupyter_gq.scheduling.quota.accounts", {"quota.accounts"}),
        ("from jupyter_gq.scheduling.workloads import gang", {"workloads"}),
        ("from jupyter_gq.domain.queue import Queue", set()),
    ],
)
def test_the_parts_of_the_core_are_found(source, parts):
    assert parts_of_the_core(source) == parts

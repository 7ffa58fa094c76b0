"""The state of a cycle is split by what each step needs, and a signature says what a step may change."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import jupyter_gq.scheduling

CORE = Path(jupyter_gq.scheduling.__file__).parent
STEPS = ("admit", "evict", "idle", "explain")
PARTS = {"CycleInputs", "ClusterIndex", "Allocations", "Reservations", "Evictions", "Findings"}
#: The most public attributes of one class of the state.
MOST_ATTRIBUTES = 12
#: The most parts that one step takes; an explanation may be about anything.
MOST_PARTS = 4
EXPLAINS = {"explain_pending", "_Explainer", "BlockerSearch"}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (CORE / folder).glob("*.py"))


def classes(folder: str) -> Iterator[ast.ClassDef]:
    for path in modules(folder):
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def public_attributes(made: ast.ClassDef) -> set[str]:
    """The fields of a dataclass, and what methods assign to `self`."""
    found = {
        each.target.id for each in made.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    for node in ast.walk(made):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                found.add(target.attr)
    return {name for name in found if not name.startswith("_")}


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module; an `__init__` has the name of its class."""
    tree = ast.parse(path.read_text())
    owners = {id(child): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield (owners.get(id(node), "") if node.name == "__init__" else node.name), node


def parts_of(function: ast.FunctionDef) -> dict[str, str]:
    """The parameters that are parts of the state, with their types."""
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    types = {each.arg: each.annotation.id for each in arguments if isinstance(each.annotation, ast.Name)}
    return {name: annotation for name, annotation in types.items() if annotation in PARTS}


@pytest.mark.parametrize("made", [pytest.param(made, id=made.name) for made in classes("state")])
def test_no_class_of_the_state_knows_everything(made):
    assert len(public_attributes(made)) <= MOST_ATTRIBUTES, sorted(public_attributes(made))


@pytest.mark.parametrize("path", modules(*STEPS, "scale"), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_step_takes_the_whole_state(path):
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert not names & {"CycleState", "begin_cycle"}


@pytest.mark.parametrize("path", modules(*STEPS), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_step_takes_few_parts_and_uses_each(path):
    for name, function in functions(path):
        parts = parts_of(function)
        assert len(parts) <= MOST_PARTS or name in EXPLAINS, f"{name} takes {', '.join(parts.values())}"
        used = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
        assert parts.keys() <= used, f"{name} does not use {', '.join(parts.keys() - used)}"


def test_only_the_cycle_and_the_scheduler_that_begins_it_hold_the_whole_state():
    naming = {
        str(path.relative_to(CORE))
        for path in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in {"CycleState", "begin_cycle"}
    }
    assert naming == {"cycle.py", "engine.py", "state/cycle_state.py"}


def test_the_whole_state_has_few_parts():
    (state,) = (made for made in classes("state") if made.name == "CycleState")
    assert len(public_attributes(state)) <= 6

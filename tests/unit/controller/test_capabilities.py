"""A backend states what it can do as data; nobody asks what kind of object it is."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import jupyter_gq
from jupyter_gq.backends.capabilities import Capabilities
from tests.fakes import FakeBackend, FakeServers, FixedClock

from .world import World

PACKAGE = Path(jupyter_gq.__file__).parent


def _calls(folder: Path, name: str) -> Iterator[tuple[Path, ast.Call, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield path, node, tree


def _imported_from(tree: ast.Module, package: str) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package)
        for alias in node.names
    }


def test_no_protocol_of_the_package_can_be_asked_with_isinstance():
    users = [path for path in PACKAGE.rglob("*.py") if "runtime_checkable" in path.read_text(encoding="utf-8")]
    assert users == []


def test_the_controller_never_looks_at_the_type_of_a_backend_or_a_store():
    found = [
        f"{path.name}:{call.lineno}"
        for path, call, tree in _calls(PACKAGE / "controller", "isinstance")
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name)
        and name.id in _imported_from(tree, "jupyter_gq.backends") | _imported_from(tree, "jupyter_gq.store")
    ]
    assert found == []
    assert [path.name for path, _, _ in _calls(PACKAGE / "controller", "hasattr")] == []


def test_what_a_backend_does_not_name_it_cannot_do():
    plain = Capabilities()
    assert (plain.forgetful, plain.keeps_unknown) == (False, False)
    assert (plain.resizing, plain.share_label, plain.pod_preparation, plain.pod_lookup) == (None,) * 4
    assert (plain.agent_reports, plain.process_attachment, plain.suspension) == (None,) * 3
    assert (plain.pace(), tuple(plain.strays()), plain.enforcement("train")) == (None, (), None)
    plain.node_supply.request_nodes({"train": 1})
    assert (plain.node_supply.new_nodes(), plain.node_supply.node_request("train")) == ((), None)


def test_a_port_is_the_object_that_does_it():
    servers = FakeServers(FixedClock(), ())
    assert servers.capabilities.process_attachment is servers


class LimitsNothing(FakeBackend):
    """A machine without control groups for the service."""

    capabilities = Capabilities(limits="Nothing limits the memory of jobs.")


@pytest.mark.asyncio
async def test_health_tells_administrators_what_keeps_jobs_within_their_requests(tmp_path):
    world = World(tmp_path, backend=LimitsNothing)
    assert world.controller.status.check_health().limits == "Nothing limits the memory of jobs."
    world.close()


class JournalSetAside:
    """The suspension of a backend whose journal was damaged."""

    trouble = "The journal was set aside."


@pytest.mark.asyncio
async def test_health_tells_administrators_of_a_journal_that_was_set_aside(tmp_path):
    world = World(tmp_path)
    for backend in (world.servers, world.backend):
        backend.capabilities = replace(backend.capabilities, suspension=JournalSetAside())
    assert world.controller.status.check_health().warnings == ["The journal was set aside."]
    world.close()


@pytest.mark.asyncio
async def test_health_tells_administrators_what_a_backend_wants_mended(tmp_path):
    world = World(tmp_path)
    world.backend.capabilities = replace(world.backend.capabilities, warnings=lambda: ["A label was taken."])
    assert world.controller.status.check_health().warnings == ["A label was taken."]
    world.close()

"""Golden cycles: each `*.input.yaml` is played and gives exactly its `*.decision.yaml`."""

from pathlib import Path

import pytest
import yaml

from tests.scenarios.play import Play

HERE = Path(__file__).parent
INPUTS = sorted(HERE.glob("*.input.yaml"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_the_scenario_gives_its_decisions(path, request):
    scenario = yaml.safe_load(path.read_text())
    play = Play(scenario)
    for step in scenario["steps"]:
        play.step(step)
    golden = path.with_name(path.name.replace(".input.", ".decision."))
    if request.config.getoption("--update-scenarios"):
        golden.write_text(yaml.safe_dump(play.decisions, sort_keys=False, allow_unicode=True, width=120))
    assert play.decisions == yaml.safe_load(golden.read_text())


def test_every_decision_has_its_input():
    names = {path.name.replace(".decision.", ".input.") for path in HERE.glob("*.decision.yaml")}
    assert names == {path.name for path in INPUTS}

"""How many lives a state machine of the controller lives, and which ones: those of CI, or others in a soak."""

import os

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine

#: `make soak-machines` lives more lives of each machine.
LIVES = os.environ.get("JUPYTER_GQ_LIVES")
#: Makes other lives, which differ from machine to machine.
SEED = os.environ.get("JUPYTER_GQ_LIVES_SEED")


def lives(machine: type[RuleBasedStateMachine], *, count: int, steps: int) -> type:
    """Return the test that lives `count` lives of up to `steps` rules each, the same ones in each run."""
    machine.TestCase.settings = settings(
        max_examples=count if LIVES is None else int(LIVES),
        stateful_step_count=steps,
        derandomize=SEED is None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    if SEED is not None:
        seed(f"{SEED} {machine.__name__}")(machine)
    return machine.TestCase

"""A short soak of suspensions: what `make soak-suspensions` does with 200 kills, with fewer."""

import subprocess
import sys


def test_no_state_is_lost_and_no_byte_counted_twice_after_many_kills():
    command = [sys.executable, "-m", "tests.soak.suspensions", "--kills", "80", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for world in ("machine simulated, service", "machine simulated, agent"):
        assert f"{world}, SEED=7:" in done.stdout
    assert "No faults." in done.stdout

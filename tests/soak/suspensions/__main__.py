"""`python -m tests.soak.suspensions`: kill services, agents and kernels; `make soak-suspensions` calls this."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from tests.contract.test_checkpointer import FakeDriverWorld
from tests.driver_fakes import build, compiler

from .agent import Agent
from .machine import CAPACITY, DRIVER_FOLDER, MACHINES
from .run import Run
from .service import Service

#: What is killed beside kernels.
LIVES = {life.role: life for life in (Service, Agent)}


def main() -> int:
    """Play each machine with its part of the kills; return 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.suspensions", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--machine", choices=[*MACHINES, "all"], default="all")
    parser.add_argument("--life", choices=[*LIVES, "all"], default="all")
    parser.add_argument("--folder", type=Path, help="play here, in this process; for the program itself")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    if arguments.folder is not None:
        tally = Run(MACHINES[arguments.machine](), arguments.folder, seed, LIVES[arguments.life]).play(arguments.kills)
        print(f"machine {arguments.machine}, {arguments.life}, {tally.describe()}", flush=True)
        return 1 if tally.faults else 0
    names = list(MACHINES) if arguments.machine == "all" else [arguments.machine]
    if compiler() is None and "fakes" in names:
        print("There is no C compiler, so the fakes of the driver's libraries are left out.")
        names.remove("fakes")
    worlds = list(product(names, LIVES if arguments.life == "all" else [arguments.life]))
    # The parts add up to the number of kills.
    parts = [
        arguments.kills * (number + 1) // len(worlds) - arguments.kills * number // len(worlds)
        for number in range(len(worlds))
    ]
    return max([0, *(_play_in_child(*world, part, seed) for world, part in zip(worlds, parts, strict=True))])


def _play_in_child(name: str, life: str, kills: int, seed: int) -> int:
    """Play in a process that finds the fake libraries of the driver, and return its exit status."""
    with tempfile.TemporaryDirectory(prefix="gq-soak-") as text:
        folder = Path(text)
        environment = {**os.environ, "TMPDIR": text, DRIVER_FOLDER: text}
        if name == "fakes":
            environment["LD_LIBRARY_PATH"] = str(build(folder))
            devices = "".join(f"{device} {CAPACITY << 20}\n" for device in FakeDriverWorld.devices)
            (folder / "devices").write_text(devices)
        command = [sys.executable, "-m", "tests.soak.suspensions", "--machine", name, "--life", life]
        return subprocess.run(
            [*command, "--folder", text, "--kills", str(kills), "--seed", str(seed)], env=environment
        ).returncode


if __name__ == "__main__":
    sys.exit(main())

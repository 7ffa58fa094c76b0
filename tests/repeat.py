"""The tests of a tier, again and again: `make test-repeat TIER=hub TIMES=10 BUSY=2`.

Each round is a `make test-TIER`. A failed round does not end the others; its output and the logs of its failed tests
are kept in `test-results/repeat/TIER/ROUND`. Busy processes compute beside the tests, as on a machine that is shared.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.kept_logs import RESULTS

ROOT = Path(__file__).parents[1]


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen]]:
    """Let this many processes compute without a pause until the end."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def repeat(command: Sequence[str], folder: Path, times: int, busy: int) -> int:
    """Run a command `times` times beside `busy` processes; return how often it failed. What it says is kept."""
    shutil.rmtree(folder, ignore_errors=True)
    failed = 0
    with busy_processes(busy):
        for number in range(1, times + 1):
            place = folder / str(number)
            place.mkdir(parents=True)
            began = time.monotonic()  # noqa: TID251 - told to people
            with (place / "output.txt").open("w") as output:
                code = subprocess.run(
                    command, cwd=ROOT, env=os.environ | {RESULTS: str(place)}, stdout=output, stderr=output, check=False
                ).returncode
            took = time.monotonic() - began  # noqa: TID251 - as above
            failed += code != 0
            told = f"failed: {place}" if code else "passed"
            print(f"round {number} of {times}: {told} ({took:.0f} s)", flush=True)
    print(f"{times - failed} of {times} rounds passed, beside {busy} busy processes")
    return failed


def main() -> int:
    """Read the command line, and return 1 if a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__)
    parser.add_argument("tier", help="unit, processes, lab, server, hub, second-hub, demo, browser or kubernetes")
    parser.add_argument("--times", type=int, default=10, help="rounds")
    parser.add_argument("--busy", type=int, default=0, help="busy processes beside the tests")
    wanted = parser.parse_args()
    # A terminated run ends its busy processes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = ROOT / "test-results/repeat" / wanted.tier
    return 1 if repeat(["make", f"test-{wanted.tier}"], folder, wanted.times, wanted.busy) else 0


if __name__ == "__main__":
    sys.exit(main())

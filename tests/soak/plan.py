"""The size of a run of the soak test, and the arithmetic that follows from it."""

import random
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is run. The same plan draws the same users, jobs and troubles; the machine decides when they meet."""

    folder: Path
    seed: int
    #: Minutes of load; starting, the last jobs and the checks come on top.
    minutes: float = 60.0
    users: int = 60
    jobs: int = 600
    #: Where it runs: "machine" or "cluster".
    place: str = "machine"
    #: "sqlite" or "postgresql"; a cluster has the latter.
    database: str = "sqlite"
    #: Names of the troubles; empty: all that this machine can make.
    troubles: tuple[str, ...] = ()
    #: Mean of the seconds between two troubles.
    trouble_every: float = 8.0
    #: The load goes on for longer if the machine was too slow for so many troubles.
    least_troubles: int = 0

    @property
    def seconds(self) -> float:
        """Seconds of load."""
        return self.minutes * 60

    @property
    def calm_from(self) -> float:
        """Seconds after which the service is no longer killed, so that the memory of one process can be judged."""
        return self.seconds / 2

    @property
    def names(self) -> list[str]:
        """The users."""
        return [f"user{number:02}" for number in range(1, self.users + 1)]

    def jobs_of(self, user: int) -> int:
        """Return the number of jobs that a user, counted from 0, sends: together they are `jobs`."""
        return self.jobs // self.users + (user < self.jobs % self.users)

    def random(self, who: str) -> random.Random:
        """Return a source of random numbers for one actor, so that the actors do not disturb each other's draws."""
        return random.Random(f"{self.seed}:{who}")

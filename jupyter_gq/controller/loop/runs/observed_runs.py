"""The runs that all backends show in one step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jupyter_gq.backends.protocol import Backend, Observation, Phase
from jupyter_gq.domain.workload import Kind, RunKey


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedRuns:
    """The observations of all backends in one step."""

    #: Each run with the backend that shows it.
    runs: Mapping[RunKey, tuple[Backend, Observation]]
    #: Kinds of workload whose backend could not be observed this time.
    unobserved: frozenset[Kind]

    def find(self, workload: str, run: int) -> Observation | None:
        """Return the observation of a run; None if no backend shows it."""
        found = self.runs.get((workload, run))
        return found[1] if found else None

    def kept(self) -> Iterator[tuple[Backend, Observation]]:
        """Yield the live runs of backends that keep unknown runs, each with its backend."""
        for backend, seen in self.runs.values():
            if backend.capabilities.keeps_unknown and seen.phase is not Phase.ENDED:
                yield backend, seen

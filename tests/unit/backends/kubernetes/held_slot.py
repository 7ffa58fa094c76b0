"""A slot whose device a reservation pod holds for a run, on paper."""

from jupyter_gq.backends.kubernetes.objects.names import reservation_name

from .paper import Paper

SLOT = "n1/0"
NAME = reservation_name(SLOT)
KEY, OTHER = ("job-1", 1), ("job-2", 1)


def held(paper=None, key=KEY, device="GPU-1"):
    """A slot whose device is held for a run."""
    paper = paper or Paper()
    paper.slots.claim(SLOT, paper.pools[0], key)
    paper.step()
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, device)])
    paper.step(1)
    return paper

"""Borrowers: the work that may use what suspended notebooks have lent, since it can give it back at any moment."""

from jupyter_gq.domain.workload import Kind, Workload


def may_borrow(workload: Workload) -> bool:
    """Tell whether a workload may use what a suspended notebook has lent: preemptible training work can give it back.

    See the rule on borrowers in `idle.lending`.
    """
    return workload.preemptible and workload.kind is Kind.TRAINING

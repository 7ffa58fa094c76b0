"""What the policy `fragmentation` keeps is what it would compute: the way to a state of the books does not matter."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.workload import Request
from jupyter_gq.scheduling.placement import DeviceLedger, RequestMix, View, make_policy
from jupyter_gq.scheduling.policy import PlacementStrategy
from tests.builders import a_device, a_job

MODELS = ("A", "B")


@st.composite
def some_nodes(draw):
    made = []
    for number in range(draw(st.integers(1, 5))):
        name = f"n{number}"
        devices = tuple(
            replace(
                a_device(f"{name}-{index}", index, pool=draw(st.sampled_from(("train", "train", "build")))), model=model
            )
            for index, model in enumerate(draw(st.lists(st.sampled_from(MODELS), max_size=4)))
        )
        cpu, memory = draw(st.sampled_from([(None, None), (8000, 4000), (4000, None)]))
        tasks = draw(st.sampled_from([None, None, 2]))
        made.append(Node(name=name, devices=devices, cpu_milli=cpu, memory=memory, max_tasks=tasks))
    return made


@st.composite
def some_requests(draw):
    devices = draw(st.sampled_from([0, 1, 1, 1, 2]))
    return Request(
        devices=devices,
        milli_per_device=MilliGpu(draw(st.sampled_from([200, 300, 500, 810, 1000]))) if devices else MilliGpu(1000),
        models=draw(st.sampled_from([(), (), ("A",)])),
        cpu_milli=draw(st.sampled_from([0, 1000, 3000])),
        memory=MiB(draw(st.sampled_from([0, 1000]))),
    )


def ledger_of(nodes, mix):
    return DeviceLedger(nodes, ["train", "build"], choice=make_policy(PlacementStrategy.FRAGMENTATION, mix))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), some_requests(), st.sampled_from(View)),
        st.tuples(st.just("ask"), some_requests(), st.integers(1, 3)),
        st.tuples(st.just("release"), st.integers(0, 30), st.none()),
        st.tuples(st.just("mark"), st.none(), st.none()),
        st.tuples(st.just("rollback"), st.none(), st.none()),
    ),
    max_size=25,
)


class Past:
    """Books to which things happen, and what is to be done to new ones to make them the same."""

    def __init__(self, nodes):
        self.mix, self.asked = RequestMix(), []
        self.ledger = ledger_of(nodes, self.mix)
        self.done, self.marks = [], []

    def ask(self, request, tasks):
        self.mix.add("train", request, tasks)
        self.asked.append((request, tasks))

    def place(self, request, view):
        task = self.ledger.place("train", request, view)
        if task is not None:
            job = replace(a_job(f"w{len(self.done)}", "q"), request=request, placement=(task,))
            self.done.append(("hold" if view is View.NOW else "nominate", job))

    def release(self, number, _):
        kind, job = self.done[number % len(self.done)] if self.done else ("", None)
        if kind == "hold" and ("release", job) not in self.done:
            self.ledger.release(job)
            self.done.append(("release", job))

    def mark(self, *_):
        self.marks.append((self.ledger.mark(), list(self.done)))

    def rollback(self, *_):
        if self.marks:
            mark, self.done = self.marks.pop()
            self.ledger.rollback(mark)

    def made_anew(self, nodes):
        mix = RequestMix()
        for request, tasks in reversed(self.asked):
            mix.add("train", request, tasks)
        fresh = ledger_of(nodes, mix)
        for kind, job in self.done:
            if kind == "hold":
                fresh.hold(job, stopping=False)
            elif kind == "release":
                fresh.release(job)
            else:
                fresh.nominate(job, job.placement)
        return fresh


@given(some_nodes(), steps, st.lists(some_requests(), min_size=1, max_size=3))
def test_books_with_a_past_choose_as_new_ones(nodes, steps, probes):
    past = Past(nodes)
    for word, *what in steps:
        getattr(past, word)(*what)
    fresh = past.made_anew(nodes)
    for request in probes:
        for view in View:
            assert past.ledger.place("train", request, view) == fresh.place("train", request, view)

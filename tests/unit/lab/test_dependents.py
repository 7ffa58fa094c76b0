"""Cells that need what only the chosen cells make are found, and no cell that can run before these."""

import pytest

from jupyter_gq.lab.bundle.dependents import find_dependents


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["score = net.test()"], [["net"]]),
        (["score = net.test()", "print(score)"], [["net"], ["score"]]),
        (["def test(): return net.test()", "test()"], [[], ["net"]]),
        (["def test(): return net.test()\ndef report(): test()", "%time report()"], [[], ["net"]]),
        (["[net(x) for x in rows]"], [["net"]]),
        (["%pylab inline", "net.test()"], [[], ["net"]]),
        (["class Deep(type(net)): pass"], [["net"]]),
        (["%timeit -n 1 net.test()"], [["net"]]),
        (["try:\n    net.test()\nexcept ValueError:\n    pass"], [["net"]]),
        (["with suppress(KeyError):\n    del net['a']"], [["net"]]),
        (["try:\n    load()\nexcept Exception:\n    pass\nnet.test()"], [["net"]]),
        (["try:\n    load()\nexcept Exception:\n    pass\nelse:\n    net.test()"], [["net"]]),
        (["try:\n    load()\nexcept Exception:\n    net.test()"], [["net"]]),
        (["try:\n    load()\nexcept Exception:\n    pass\nfinally:\n    net.test()"], [["net"]]),
        (["try:\n    net\nexcept NameError:\n    pass\nelse:\n    pass\nnet.test()"], [["net"]]),
    ],
)
def test_what_needs_a_target_when_it_runs_is_found(sources, names):
    assert find_dependents(sources, ["net = train()"]) == names


@pytest.mark.parametrize(
    "sources",
    [
        ["net = load()", "net.test()"],
        ["def test(): return net.test()"],
        ["class Meter:\n    def read(self): return net.test()", "from meters import read\nread()"],
        ["def outer():\n    def read(): return net.test()", "read()"],
        ["steps = [lambda: net.test()]"],
        ["import net", "net.test()"],
        ["for net in nets: net.test()"],
        ["%run nets.py", "net.test()"],
        ["exec(source)", "net.test()"],
        ["for"],
        ["net = load()\n%timeit net.test()"],
        ["net = load()\ndef test(): return net.test()\ntest()"],
        ["for x in rows: net = x\nnet.test()"],
        ["if ready: net = load()\nelse: pass\nnet.test()"],
        ["for net, rate in nets:\n    break\nnet.test()"],
        ["%%bash --out net\nls", "net.split()"],
        ["if 'net' in locals(): net.test()"],
        ["if 'net' in dir(): net.test()"],
        ["try:\n    net\nexcept NameError:\n    net = load()"],
        ["try:\n    net\nexcept (KeyError, Exception):\n    print('later')"],
        ["try:\n    net.test()\nexcept:\n    pass"],
        ["try:\n    net\nexcept NameError:\n    pass\nelse:\n    net.test()"],
        ["with suppress(NameError):\n    del net"],
        ["def load():\n    global net\n    net = 1\nload()\nnet.test()"],
    ],
    ids=[
        "made before",
        "function",
        "a method",
        "an inner function",
        "lambda",
        "imported",
        "in a loop",
        "a script",
        "exec",
        "no Python",
        "in a magic",
        "through a function",
        "made in a loop",
        "made in a branch",
        "made by a loop",
        "made by a shell",
        "asked in locals",
        "asked in dir",
        "asked by reading it",
        "caught with others",
        "caught with all",
        "there where nothing was caught",
        "deleted if it is there",
        "made by a function",
    ],
)
def test_what_can_run_is_not(sources):
    assert find_dependents(sources, ["net = train()"]) == [[] for _ in sources]


def test_names_that_are_there_anyway_are_no_need():
    target = "from IPython.display import display\nmax = 3\ndisplay(max)"
    assert find_dependents(["display(max([1]))"], [target]) == [[]]


def test_a_cell_makes_a_name_again_after_one_that_was_left_out():
    sources = ["score = net.test()", "score = 0", "print(score)"]
    assert find_dependents(sources, ["net = train()"]) == [["net"], [], []]


@pytest.mark.parametrize("before", ["from fastai.vision.all import *", "%pylab inline"])
def test_what_the_target_only_imports_may_have_come_with_a_whole_library(before):
    assert find_dependents([before, "np.ones(3)"], ["import numpy as np\nnet = np.zeros(3)"]) == [[], []]
    assert find_dependents(["np.ones(3)"], ["import numpy as np"]) == [["np"]]

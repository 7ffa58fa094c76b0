"""What a cell sets outside of variables is found, and nothing that a variable holds."""

import pytest

from jupyter_gq.lab.effects.process_state import find_process_state

LOG = ["log.setLevel", "log.propagate"]


def found(*sources):
    return find_process_state(sources)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import numpy as np\nnp.random.seed(0)", ["numpy.random.seed"]),
        ("np.random.seed(0)", ["numpy.random.seed"]),
        ("import random, torch\nrandom.seed(1); torch.manual_seed(1)", ["random.seed", "torch.manual_seed"]),
        ("from transformers import set_seed\nset_seed(3)", ["transformers.set_seed"]),
        ("def seed():\n    import random\n    random.seed(1)\nseed()", ["random.seed"]),
        ("import os\nos.environ['MODE'] = 'fast'", ["os.environ"]),
        ("from os import environ\nenviron.update(MODE='fast')", ["os.environ.update"]),
        ("import sys\nsys.path.append('src')", ["sys.path.append"]),
        ("import sys\nsys.path += ['src']", ["sys.path"]),
        ("import os\nif True:\n    os.chdir('data')", ["os.chdir"]),
        ("import torch\ntorch.backends.cudnn.deterministic = True", ["torch.backends.cudnn.deterministic"]),
        ("pd.options.mode.copy_on_write = True", ["pandas.options.mode.copy_on_write"]),
        ("plt.rcParams['figure.dpi'] = 200", ["matplotlib.pyplot.rcParams"]),
        ("from torch import nn\nnn.Linear.forward = forward", ["torch.nn.Linear.forward"]),
        ("with torch.no_grad():\n    np.seterr(all='raise')", ["numpy.seterr"]),
        ("%env MODE=fast", ["%env"]),
        ("%cd data", ["%cd"]),
        ("%timeit -r 3 np.random.seed(1)", ["numpy.random.seed"]),
        ("%%time\nimport random\nrandom.seed(1)", ["random.seed"]),
        ("import random\nrandom.seed(1); random.seed(2)", ["random.seed"]),
        ("from decimal import getcontext\ngetcontext().prec = 50", ["getcontext().prec"]),
        ("from decimal import *\ngetcontext().prec = 50", ["getcontext().prec"]),
        ("from numpy.random import *\nseed(1)", ["numpy.random.seed"]),
        ("import logging\nlogging.getLogger().setLevel(10)", ["logging.getLogger().setLevel"]),
        ("get_ipython().events.register('post_run_cell', hook)", ["get_ipython().events.register"]),
        ("import pandas as pd\nsetattr(pd.DataFrame, 'twice', twice)", ["pandas.DataFrame.twice"]),
        ("import sklearn\nsklearn.set_config(display='text')", ["sklearn.set_config"]),
        ("from training.tools import seed_everything\nseed_everything(1)", ["training.tools.seed_everything"]),
        ("%config InlineBackend.figure_format = 'svg'", ["%config"]),
        ("%precision 3", ["%precision"]),
        ("%pprint", ["%pprint"]),
    ],
)
def test_what_a_cell_sets_in_its_process_is_found(source, names):
    assert found(source) == [names]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "for",
        "import numpy as np\nrng = np.random.default_rng(0)\nx = np.random.rand(3)",
        "def seed():\n    random.seed(1)",
        "class Net:\n    width = 3\nnet = Net()\nnet.width = 4",
        "rows = {}\nrows['a'] = 1",
        "import numpy as np\nfigure.axes = 3",
        "np = Own()\nnp.random = 3",
        "%env",
        "%load_ext autoreload\n%autoreload 2",
        "class Log:\n    def setLevel(self, level): pass\nlog = Log()\nlog.setLevel(1)",
        "ip = get_ipython()\nip.user_ns",
        "%matplotlib inline",
        "import os\nprint(os.environ['MODE'], os.getcwd())",
    ],
)
def test_what_a_variable_holds_and_what_is_read_is_not(source):
    assert found(source) == [[]]


def test_a_name_of_an_earlier_cell_is_known():
    assert found("import random as r", "r.seed(1)", "r = 3", "r.seed(1)") == [[], ["random.seed"], [], ["random.seed"]]


def test_methods_and_inner_functions_are_no_functions_of_the_cell():
    method, inner = "class Run:\n    def start(self): random.seed(1)", "def run():\n    def start(): random.seed(1)"
    assert found(method, "start()") == found(inner, "start()") == [[], []]
    assert found(f"{inner}\n    start()", "run()") == [[], ["random.seed"]]
    assert found("if fast:\n    def start(): random.seed(1)", "start()") == [[], ["random.seed"]]


@pytest.mark.parametrize(
    ("before", "source", "names"),
    [
        ("def set_all(n):\n    random.seed(n); np.random.seed(n)", "set_all(1)", ["random.seed", "numpy.random.seed"]),
        ("def a():\n    b()\ndef b():\n    a(); random.seed(1)", "a()", ["random.seed"]),
        ("def style():\n    plt.rcParams['figure.dpi'] = 9", "style()", ["matplotlib.pyplot.rcParams"]),
        ("import os\ndef fast():\n    os.environ['MODE'] = 'fast'", "%time fast()", ["os.environ"]),
        ("import logging\nlog = logging.getLogger('a')", "log.setLevel(10)\nlog.propagate = False", LOG),
        ("ip = get_ipython()", "ip.events.register('pre_run_cell', f)", ["ip.events.register"]),
    ],
)
def test_what_a_cell_sets_through_an_earlier_cell_is_found_where_it_runs(before, source, names):
    assert found(before, source) == [[], names]

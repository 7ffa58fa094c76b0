"""The job of a cell shows what the notebook shows, or the dialog says why it may not: on odd notebooks.

Real notebooks were compared in the same way; each of these stands for a way in which a job once differed in silence, or
for one that must not. A cell that lacks a variable fails, which is no fault: the user sees it.
"""

import pytest

from .shells import Forks, run_job, run_notebook

SAME = {
    "a class defined anew": ("class A:\n    v = 1\na = A()", "class A:\n    v = 2", "print(a.v, A().v)"),
    "a counter of a function": ("def f():\n    f.n += 1\n    return f.n\nf.n = 0", "f(); f()", "print(f())"),
    "a counter of a class": (
        "class C:\n    made = []\n    def __init__(self): C.made.append(1)",
        "C()",
        "print(C.made)",
    ),
    "one object under two names": ("a = [1]\nb = {'a': a}", "c = b['a']", "c.append(2)\nprint(a, b)"),
    "an iterator in its middle": ("pairs = zip('abc', range(3))", "next(pairs)", "print(list(pairs))"),
    "a generator of random numbers": ("import random\nr = random.Random(1)", "r.random()", "print(r.random())"),
    "a registry of functions": (
        "known = {}\ndef register(f):\n    known[f.__name__] = f\n    return f",
        "@register\ndef one(): return 1",
        "print({name: f() for name, f in known.items()})",
    ),
    "a name that exec makes": ("exec('q = 5')", "globals()['r'] = 6", "print(q, r)"),
    "a late global": ("def f(): return scale * 2\nscale = 1", "scale = 5", "print(f())"),
    "a builtin that is replaced": ("old = print", "def print(*a): old('>>', *a)", "print('x')"),
    "functions that share a constant": (
        "def make(n):\n    return (lambda: n), (lambda: n * 2)\none, two = make(3)",
        "print(one(), two())",
    ),
    "a name in a text": ("rate = 3", "print(eval('rate + 1'))"),
    "awaited at the top": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x",
        "print(await f(4))",
    ),
}
TOLD = {
    "a seed set by a function": (
        "import random\ndef set_all(n): random.seed(n)",
        "set_all(3)",
        "print(random.random())",
    ),
    "an environment set by a function": (
        "import os\ndef setup(): os.environ['GQ_MODE'] = 'fast'",
        "setup()",
        "print(os.environ.get('GQ_MODE', 'slow'))",
    ),
    "a generator": (
        "def count():\n    yield from range(9)\nsteps = count()",
        "next(steps); next(steps)",
        "print(next(steps))",
    ),
    "a database in memory": (
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (x)')",
        "c.execute('insert into t values (1)')",
        "print(c.execute('select * from t').fetchall())",
    ),
    "a context variable": (
        "import contextvars\nv = contextvars.ContextVar('v', default=0)",
        "v.set(5)",
        "print(v.get())",
    ),
    "functions that share a counter": (
        "def make():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n    def get(): return n\n"
        "    return add, get\nadd, get = make()",
        "add(); add()",
        "add(); print(get())",
    ),
    "a logger": (
        "import logging, sys\nlog = logging.getLogger('mine')",
        "log.setLevel(10); log.addHandler(logging.StreamHandler(sys.stdout))",
        "print(log.level)",
    ),
    "digits of decimal numbers": ("from decimal import *", "getcontext().prec = 40", "print(Decimal(1) / 7)"),
    "a function of many kinds": (
        "from functools import singledispatch\n@singledispatch\ndef show(x): return 'other'",
        "@show.register\ndef _(x: int): return 'int'",
        "print(show(3))",
    ),
    "all names": ("x = 1", "y = 2", "print(sorted(n for n in globals() if n in 'xy'))"),
    "a value that a failed cell has set": ("rate = 1", "rate = 5\nraise ValueError", "print(rate)"),
    "a deleted name": ("x = 1; y = 2", "del x", "try: print(x)\nexcept NameError: print('gone', y)"),
    "the last result": ("21 * 2", "print(_)"),
}


@pytest.fixture(scope="module")
def forks():
    forks = Forks()
    yield forks
    forks.close()


@pytest.mark.parametrize("name", [*SAME, *TOLD])
def test_a_job_shows_what_the_notebook_shows_or_its_user_is_told(tmp_path, forks, name):
    here = forks.run(run_notebook, str(tmp_path), (SAME | TOLD)[name])
    differs = False
    for kind in ("replay", "carry"):
        succeeded, shown = forks.run(run_job, str(tmp_path), *here[kind].values())
        if not succeeded or shown != here["shown"]:
            assert here[f"{kind}_told"], f"{kind}: {shown!r} in place of {here['shown']!r}"
            differs = True
    assert differs == (name in TOLD)

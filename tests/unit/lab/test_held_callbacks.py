"""Callbacks that hold each other, functions that are made of each other, and names that are assigned again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.lab.effects.changed_names import find_changed_names
from tests.steps import count_calls

_WRAPPED = [
    (["callbacks = [Wrap(callbacks=callbacks)]"], "trainer.fit(net, callbacks=callbacks)"),
    (["callbacks = [Wrap(callbacks=callbacks)]"] * 2, "trainer.fit(net, callbacks=callbacks)"),
    (["callbacks = [CallbackList(callbacks=callbacks, n=3)]"], "trainer.fit(net, callbacks=callbacks)"),
    (["cbs = [Wrap(callbacks=callbacks)]", "callbacks = [Wrap(callbacks=cbs)]"], "net.fit(x, callbacks=callbacks)"),
    (["trainer = Trainer(callbacks=[Wrap(callbacks=callbacks)])"], "trainer.train()"),
]


@pytest.mark.parametrize(("again", "target"), _WRAPPED)
def test_callbacks_that_are_wrapped_under_their_own_name_are_followed(again, target):
    before = ["a = History()", "callbacks = [a]", *again]
    assert {"a", target.partition(".")[0]} <= find_changed_names(before, [target])


def test_callbacks_that_hold_themselves_are_followed_once():
    before = ["c0 = [W(callbacks=c1), a]", "c1 = [W(callbacks=c0), W(on_end=c1)]"]
    assert find_changed_names(before, ["net.fit(x, callbacks=c1)"]) == {"a", "net"}


@pytest.mark.parametrize(
    "target",
    ["net.fit(x, callbacks=c{last})", "trainer.add_callback(c{last})\ntrainer.train()", "for c in c{last}: c()"],
)
def test_callbacks_that_hold_the_same_ones_twice_are_not_followed_twice(target):
    def find(levels):
        wraps = [f"c{level} = [W(callbacks=c{level - 1}), W(callbacks=c{level - 1})]" for level in range(1, levels)]
        return find_changed_names(["c0 = [a]", *wraps], [target.format(last=levels - 1)])

    assert ("a" in find(200)) == ("callback" in target)
    few, many = count_calls(lambda: find(100), most=10**6), count_calls(lambda: find(200), most=10**6)
    assert many < 3 * few


def test_a_long_list_of_callbacks_is_followed_once():
    def find(number):
        callbacks = [f"W(callbacks=inner, n={each})" for each in range(number)]
        inner = ", ".join(f"a{each}" for each in range(number))
        fits = "\n".join(["net.fit(x, callbacks=outer)"] * number)
        return find_changed_names([f"inner = [{inner}]\nouter = [{', '.join(callbacks)}]"], [fits])

    assert find(3) == {"a0", "a1", "a2", "net"}
    assert count_calls(lambda: find(200), most=10**6) < 3 * count_calls(lambda: find(100), most=10**6)


def test_a_chain_of_objects_that_hold_each_other_is_followed_once():
    def find(number):
        chain = [f"c{each} = Trainer(callbacks=[c{each - 1}])" for each in range(1, number)]
        return find_changed_names(["\n".join(["c0 = Trainer(callbacks=[a])", *chain])], [f"c{number - 1}.train()"])

    assert find(5) == {"a", "c0", "c1", "c2", "c3", "c4"}
    assert count_calls(lambda: find(200), most=10**6) < 3 * count_calls(lambda: find(100), most=10**6)


@pytest.mark.parametrize(
    "cell",
    [
        "h = functools.partial(pool.submit, h)\nh()",
        "h = functools.partial(pool.submit, k)\nk = functools.partial(pool.submit, h)\nh()",
        "pool.submit(" + ", ".join(["pool.submit"] * 3000) + ")",
        "hs = [functools.partial(pool.submit, h), functools.partial(pool.submit, h)]\nfor h in hs: h()",
    ],
)
def test_functions_that_are_given_themselves_are_read_a_bounded_number_of_times(cell):
    before = "pool = ThreadPoolExecutor()"
    assert count_calls(lambda: find_changed_names([before], [cell, cell]), most=10**6) < 10**6


@pytest.mark.parametrize(
    ("before", "target", "held"),
    [
        (["trainer = Trainer(callbacks=[a])", "trainer = Trainer(callbacks=[b])"], "trainer.train()", "b"),
        (["trainer = Trainer(callbacks=[a])", "trainer: Trainer = Trainer(callbacks=[b])"], "trainer.train()", "b"),
        (["trainer = Trainer(callbacks=[a])\ntrainer = Trainer(callbacks=[b])"], "trainer.train()", "b"),
        (["trainer = Trainer()\ntrainer.add_callback(a)"], "trainer = Trainer(callbacks=[b])\ntrainer.train()", "b"),
        (["trainer = Trainer(callbacks=[a])"], "trainer = Trainer()\ntrainer.train()", ""),
        (["t = Trainer(callbacks=[a])", "t, n = Trainer(callbacks=[b]), 1"], "t.train()", ""),
        (["t = Trainer(callbacks=[a])", "with scope(): t = Trainer(callbacks=[b])"], "t.train()", "b"),
        (["t = Trainer(callbacks=[a])", "if debug: t = Trainer(callbacks=[b])"], "t.train()", "a b"),
        (["t = Trainer(callbacks=[a])", "t = wrap(t)", "t.add_callback(b)"], "t.train()", "a b"),
        (["cbs = [a]\nt = Trainer(callbacks=cbs)\ncbs = [b]"], "t.train()", "a"),
    ],
)
def test_a_name_that_is_assigned_again_has_the_callbacks_of_its_new_object_only(before, target, held):
    found = find_changed_names(["a, b = History(), History()", *before], [target])
    assert found & {"a", "b"} == set(held.split())


def test_an_object_keeps_its_callbacks_under_another_name():
    before = ["trainer = Trainer(callbacks=[a])", "former = trainer", "trainer = Trainer(callbacks=[b])"]
    assert "a" in find_changed_names(["a, b = History(), History()", *before], ["former.train()"])


@pytest.mark.parametrize(
    "makes",
    [
        "h = functools.partial(g)\nh = functools.partial(h, a)",
        "h = functools.partial(g)\nh = functools.partial(h)\nh = functools.partial(h, a)",
        "h = g\nh = functools.partial(h, a)",
        "h = lambda rows: rows.append(1)\nh = functools.partial(h, a)",
    ],
)
def test_a_partial_function_that_is_made_of_the_former_one_of_its_name_is_read(makes):
    before = ["import functools\na = []\ndef g(rows): rows.append(1)", *[makes] * 2]
    assert find_changed_names(before, ["h()"]) == {"a"}


_NAMES = st.sampled_from("abcde")
_SIMPLE = st.one_of(_NAMES, st.sampled_from(["Own()", "1", "lambda x: a.append(x)", "grow", "pool.submit"]))
_LISTS = st.lists(_SIMPLE, max_size=3).map(lambda each: f"[{', '.join(each)}]")


def _combine(inner):
    two = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda each: f"Wrap(callbacks={each})"),
        inner.map(lambda each: f"make_trainer({each}, on_end={each})"),
        two.map(lambda each: f"functools.partial({', '.join(each)})"),
        two.map(lambda each: f"[{', '.join(each)}]"),
        two.map(lambda each: f"pool.submit({', '.join(each)})"),
        two.map(lambda each: f"map({', '.join(each)})"),
    )


_VALUES = st.recursive(_SIMPLE | _LISTS, _combine, max_leaves=6)
_STATEMENTS = st.one_of(
    st.tuples(_NAMES, _VALUES).map(" = ".join),
    st.tuples(_NAMES, _NAMES, _VALUES, _VALUES).map(lambda each: "{}, {} = {}, {}".format(*each)),
    st.tuples(_NAMES, _VALUES, _NAMES, _VALUES).map(lambda each: "for {} in {}: {} = {}".format(*each)),
    st.tuples(_NAMES, _VALUES, _NAMES).map(lambda each: "for {} in {}: {}()".format(*each)),
    st.tuples(_NAMES, _VALUES).map(lambda each: "def {}(f): {}; f(f)".format(*each)),
    st.tuples(_NAMES, _VALUES).map(lambda each: "{}.add_callback({})".format(*each)),
    st.tuples(_NAMES, _VALUES).map(lambda each: "{}.fit(x, callbacks={})".format(*each)),
    st.tuples(_NAMES, _VALUES).map(lambda each: "if x: {} = {}".format(*each)),
    _NAMES.map("{}()".format),
    _NAMES.map("{}.train()".format),
)
_CELLS = st.lists(_STATEMENTS, max_size=5).map("\n".join)
_DEFINED = "class Own:\n    def on_end(self): self.rows = c; d.append(1)\ndef grow(x): x.append(e)"


@given(st.lists(_CELLS, max_size=8), st.lists(_CELLS, min_size=1, max_size=3))
def test_whatever_cells_hold_their_reading_ends_soon_and_raises_nothing(before, targets):
    most = 2000 + 20 * sum(map(len, [_DEFINED, *before, *targets])) ** 2
    count_calls(lambda: find_changed_names([_DEFINED, *before], targets), most=most)

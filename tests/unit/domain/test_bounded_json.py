"""JSON that nobody can use against its reader: bounded in depth, number of values and numbers."""

import contextlib
import json
import signal
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.errors import InvalidJson


@pytest.mark.parametrize("document", [None, 0, -(2**63), 2**63 - 1, 1e308, "", [], {}, {"a": [1, {"b": "c,[{"}]}])
def test_a_document_within_the_bounds_is_read_as_it_is(document):
    assert bounded_json.parse(json.dumps(document)) == document


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("[" * 200_000, "nested more than 100 levels deep"),
        ("[" * 101 + "]" * 101, "nested more than 100 levels deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested more than 100 levels deep"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ("1" * 5000 + ".0", "the number 1{66}…1{31}.0 is too large"),
        ("1" * 5000, "the number 1{66}…1{33} does not fit into 64 bits"),
        (str(10**30), "the number 10{30} does not fit into 64 bits"),
        (str(2**63), f"the number {2**63} does not fit into 64 bits"),
        (str(-(2**63) - 1), "does not fit into 64 bits"),
        ("NaN", "NaN is not a JSON number"),
        ("[Infinity]", "Infinity is not a JSON number"),
        ("", "Expecting value at line 1, column 1"),
        ("{", "at line 1, column 2"),
    ],
)
def test_a_document_beyond_a_bound_is_refused_with_the_bound(text, phrase):
    with pytest.raises(InvalidJson, match=phrase):
        bounded_json.parse(text)


def test_the_deepest_document_within_the_bound_is_read():
    assert json.dumps(bounded_json.parse("[" * 100 + "]" * 100)) == "[" * 100 + "]" * 100


def test_values_are_counted_and_commas_in_text_are_none():
    assert bounded_json.parse('["a,b,c,d", "[{,"]', max_nodes=3) == ["a,b,c,d", "[{,"]
    for text in ("[1,2,3]", "[[],[],[]]", '{"a":1,"b":2,"c":"\\","}'):
        with pytest.raises(InvalidJson, match="more than 3 values"):
            bounded_json.parse(text, max_nodes=3)


#: More separators than the reader below allows, so that it looks for those that are part of a string.
SEPARATORS = "," * 10_001


@contextlib.contextmanager
def at_most_cpu_seconds(seconds):
    """Raise `TimeoutError` if this process computes longer; the time of other processes does not count."""

    def refuse(*_):
        raise TimeoutError(f"more than {seconds} s of computing")

    before = signal.signal(signal.SIGVTALRM, refuse)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 100_000,
        '"' + '\\"' * 100_000 + "\\",
        '"' + "a" * 200_000,
        '"' * 200_001,
        '"a\\' * 100_000,
        '"' + "\\" * 200_001,
    ],
    ids=["escaped quotes", "escaped quotes and a backslash", "no end", "quotes", "backslashes", "only backslashes"],
)
def test_strings_cost_time_and_memory_in_proportion_to_the_document(text):
    tracemalloc.start()
    try:
        with at_most_cpu_seconds(5), pytest.raises(InvalidJson):
            bounded_json.parse(SEPARATORS + text, max_nodes=10_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)


ANY_TEXT = st.text(st.characters(), max_size=5) | st.sampled_from(["\ud800", "a,b", '["', "\\"])
ANY_NUMBER = st.integers() | st.sampled_from([2**63, -(2**63) - 1, 10**400]) | st.floats()
ANY_DOCUMENT = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(ANY_DOCUMENT, st.integers(1, 30))
def test_a_readable_document_is_read_as_it_is_with_the_same_number_of_values(document, max_nodes):
    """Safety: what a writer makes readable is not refused by a reader with the same bound."""
    try:
        readable = bounded_json.make_readable(document, max_nodes=max_nodes, max_depth=bounded_json.MAX_DEPTH)
    except InvalidJson:
        return
    text = json.dumps(readable, ensure_ascii=False)
    text.encode()
    assert bounded_json.parse(text, max_nodes=max_nodes) == readable


@pytest.mark.parametrize(
    ("document", "readable"),
    [
        (2**63 - 1, 2**63 - 1),
        (2**63, 9.223372036854775808e18),
        (-(2**63) - 1, -9.223372036854775808e18),
        (10**400, hex(10**400)),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("half: \ud800", "half: \ufffd"),
        ({"\udc00": (True, None)}, {"\ufffd": [True, None]}),
    ],
    ids=str,
)
def test_only_what_a_reader_would_refuse_is_replaced(document, readable):
    made = bounded_json.make_readable(document)
    assert (made, type(made)) == (readable, type(readable))


@pytest.mark.parametrize(
    ("document", "phrase"), [([[[]]], "nested more than 2 levels"), ([0] * 11, "more than 10 values")]
)
def test_a_document_beyond_the_bounds_is_not_made_readable(document, phrase):
    with pytest.raises(InvalidJson, match=phrase):
        bounded_json.make_readable(document, max_nodes=10, max_depth=2)


@pytest.mark.parametrize(
    "document", [[], {}, [[]], [[], []], {"a": {}, "b": [1, []]}, "[] in a text", ["[]", "{}", "[", "{"], [{}, 1, [{}]]]
)
def test_each_value_counts_once_also_an_empty_one(document):
    def values(value):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(map(values, inner))

    assert bounded_json.count_nodes(json.dumps(document), 0) == values(document)
    assert bounded_json.count_nodes(json.dumps(document), 10**6) >= values(document), "a bound, also with texts"

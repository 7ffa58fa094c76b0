"""A value of a variable reaches a container as it is, whatever Kubernetes replaces in the variables of pods."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.client.pods.counted_devices import escape_variable

#: Texts in which much can be replaced, and any others.
TEXTS = st.text(alphabet="$()ab", max_size=12) | st.text()


def expand(text, mapping):
    """Return the text as Kubernetes expands it: `third_party/forked/golang/expansion`, rule by rule."""
    out, at = [], 0
    while at < len(text):
        rest = text[at + 1 :]
        if text[at] != "$" or not rest:
            out.append(text[at])
            at += 1
        elif rest[0] == "$":
            out.append("$")
            at += 2
        elif rest[0] == "(" and ")" in rest:
            name = rest[1 : rest.index(")")]
            out.append(mapping.get(name, f"$({name})"))
            at += len(name) + 3
        else:
            out.append("$" + rest[0])
            at += 2
    return "".join(out)


@given(TEXTS, st.dictionaries(st.text(alphabet="ab", max_size=2), st.just("another variable")))
def test_safety_kubernetes_replaces_nothing_in_an_escaped_value(value, known):
    assert expand(escape_variable(value), known) == value


def test_the_oracle_expands_as_kubernetes_does():
    """Cases of the tests of Kubernetes."""
    known = {"VAR_A": "A", "VAR_EMPTY": ""}
    cases = {
        "$(VAR_A)": "A",
        "___$(VAR_A)___": "___A___",
        "$$(VAR_A)": "$(VAR_A)",
        "$$$(VAR_A)": "$A",
        "$$$$(VAR_A)": "$$(VAR_A)",
        "foo$(VAR_EMPTY)bar": "foobar",
        "$(VAR_DNE)": "$(VAR_DNE)",
        "$VAR_A)": "$VAR_A)",
        "$(VAR_A": "$(VAR_A",
        "$$VAR_A": "$VAR_A",
        "foo$": "foo$",
        "$": "$",
    }
    assert {text: expand(text, known) for text in cases} == cases

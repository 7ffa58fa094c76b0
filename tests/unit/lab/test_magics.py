"""Magics inside of magics are read down to a depth that no notebook needs, and deeper ones keep nobody waiting."""

import pytest

from jupyter_gq.lab.bundle.job_senders import leave_out_senders
from jupyter_gq.lab.bundle.variable_reads import find_read_variables
from jupyter_gq.lab.effects.effects import find_effects
from jupyter_gq.lab.effects.process_state import find_process_state
from jupyter_gq.lab.project.references import find_references
from jupyter_gq.lab.reading import magics
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.lookups import find_lookups
from jupyter_gq.lab.reading.names import find_free_names, find_made_names

WRITES = "x = open('a.txt', 'w')"


@pytest.mark.parametrize(
    "prefix", ["%time ", "time ", "%%time\n", "%%prun -l 3\n", "%time %timeit -n 1 ", "%%time %time "]
)
def test_code_in_many_magics_is_read_and_in_too_many_is_not(prefix):
    levels = len(prefix.split("time")) - 1 or 1
    assert find_effects(prefix * (magics._MOST_INNER // levels) + WRITES) != []
    assert find_effects(prefix * (magics._MOST_INNER + 2) + WRITES) == []


@pytest.mark.parametrize("prefix", ["%time ", "time ", "%%time\n", "%%time %time "])
def test_a_thousand_magics_in_one_another_are_no_error(prefix, monkeypatch):
    parsed = []
    monkeypatch.setattr(magics, "parse_cell", lambda source: parsed.append(source) or parse_cell(source))
    source = prefix * 1000 + WRITES
    tree = parse_cell(source)
    assert len(magics.list_trees(tree)) == 1
    assert (find_free_names([source]), find_made_names([source])) == (["get_ipython"], [])
    assert leave_out_senders([f"{source}\n# jupyter_gq"])[1] == set()
    assert (find_lookups(tree), find_process_state([source]), find_effects(source)) == ([], [[]], [])
    assert find_read_variables([source]).read == {}
    assert find_references(tree).imports == set()
    assert parsed == []


def test_many_magics_beside_each_other_are_read():
    body = "\n".join(f"%time open('{number}.txt', 'w')" for number in range(50))
    assert len(find_effects(f"%%time\n{body}")) == 50

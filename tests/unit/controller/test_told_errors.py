"""Whatever the code of a configuration file does, the settings before it stay in force, and its author is told."""

import pytest

from jupyter_gq.app import main

from .policy_files import load
from .test_policy_file import GOOD, look

pytestmark = pytest.mark.asyncio

BROKEN = "class E(Exception):\n    def __str__(self): {}\nraise E()\n"
RAISES = """class D(dict):
    def items(self): {}
    def __deepcopy__(self, memo): return self
c.TrainingQueues.queues = D()
"""
HIDDEN = "c.TrainingQueues.queues = {{'a': {{'quota': 1, 'groups': {}}}}}\n"
LOOP = "def f(): f()\nf()\n"
WRONG_DICT = "line 13: c.TrainingQueues.queues = {}: a value of the type D cannot be used"

FILES = [
    (BROKEN.format("raise ValueError()"), "line 12: E: it does not tell why. Mend that line."),
    (BROKEN.format("raise SystemExit(0)"), "line 12: E: it does not tell why. Mend that line."),
    (BROKEN.format("import os; os._exit(0)"), "line 12: E: it does not tell why. Mend that line."),
    ("raise RuntimeError('x' * 3_000_000)\n", "line 10: RuntimeError: xxx"),
    ("raise SyntaxError('x' * 3_000_000)\n", "xxx"),
    ("raise OSError('/data/M\\udcfcller\\nnext')\n", "line 10: OSError: /data/Mller next. Mend that line."),
    (RAISES.format("raise ValueError('evil')"), WRONG_DICT),
    (RAISES.format("raise SystemExit(0)"), WRONG_DICT),
    (RAISES.format("import os; os._exit(0)"), WRONG_DICT),
    (HIDDEN.format("{'x': 1}.keys()"), "line 10: c.TrainingQueues.queues['a']['groups'] = dict_keys(['x']): a value"),
    (HIDDEN.format("(g for g in 'x')"), "a value of the type generator cannot be used"),
    ("import types\nc.TrainingQueues.queues = types.MappingProxyType({})\n", "line 11: c.TrainingQueues.queues = "),
    ("from fractions import Fraction\nc.FixedQuota.default = Fraction(1, 3)\n", "line 11: c.FixedQuota.default"),
    (LOOP, "line 10: RecursionError"),
    ("load_subconfig(__file__)\n", "20 files load each other by `load_subconfig` in a row."),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize(("text", "words"), FILES)
async def test_code_of_a_file_that_raises_anything_changes_nothing_and_is_told(path, text, words):
    policy = load(path)
    path.write_text(GOOD + text)
    assert await look(policy)
    assert words in policy.error
    assert len(policy.error) < 1500
    assert policy.current.default_quota == 250


@pytest.mark.parametrize(("text", "words"), FILES)
async def test_check_config_says_it_and_fails(path, capsys, text, words):
    path.write_text(GOOD + text)
    assert main(["check-config", str(path)]) == 1
    assert words in capsys.readouterr().out


async def test_a_decimal_number_is_an_amount(path):
    path.write_text(GOOD + "from decimal import Decimal\nc.FixedQuota.default = Decimal('0.5')\n")
    assert load(path).current.default_quota == 500


async def test_check_config_names_a_file_that_is_loaded_and_that_there_is_not(path, capsys):
    path.write_text(GOOD + "load_subconfig('nothere.py')\n")
    assert main(["check-config", str(path)]) == 0
    words = f"{path}, line 10: load_subconfig asks for 'nothere.py', and there is no such file"
    assert words in capsys.readouterr().out

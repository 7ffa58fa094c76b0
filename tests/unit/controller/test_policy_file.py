"""The config file: what is in force, when it changes, and what its author is told."""

import asyncio
import logging

import pytest

from jupyter_gq.controller.settings.policy_file import ConfigFileError, PolicyFile, find_line
from tests.fakes import a_node

pytestmark = pytest.mark.asyncio

GOOD = """c = get_config()  # noqa
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.FixedQuota.default = "0.25"
c.TrainingQueues.queues = {
    "vision": {"quota": 1},
    "nlp": {
        "quota": 1,
    },
}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(GOOD)
    return path


def load(path):
    return PolicyFile(path, lambda: (a_node(2),))


async def test_a_change_takes_effect_at_the_next_look(path, caplog):
    policy = load(path)
    assert policy.current.default_quota == 250
    assert not await policy.refresh()
    caplog.set_level(logging.INFO)
    path.write_text(GOOD.replace('"0.25"', '"0.5"'))
    assert await policy.refresh()
    assert (policy.current.default_quota, policy.error) == (500, None)
    assert not await policy.refresh()
    assert len([record for record in caplog.records if "loaded again" in record.getMessage()]) == 1


async def test_a_bad_change_leaves_the_old_settings_in_force_until_it_is_mended(path, caplog):
    policy = load(path)
    before = policy.current
    path.write_text(GOOD.replace('"0.25"', "1.5"))
    assert await policy.refresh()
    assert policy.current is before
    assert policy.error == (
        f"{path}, line 3: c.FixedQuota.default = 1.5: it is neither a fraction of one GPU nor a whole number of GPUs. "
        "Use a fraction below 1, or 1 or 2."
    )
    assert not await policy.refresh()
    assert len([record for record in caplog.records if "refused" in record.getMessage()]) == 1
    path.write_text(GOOD.replace('"0.25"', "1"))
    assert await policy.refresh()
    assert (policy.current.default_quota, policy.error) == (1000, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def x(:", r"line 10: this is not valid Python"),
        ("c.FixedQuota.default = 1 / 0", r"line 10: ZeroDivisionError: division by zero"),
        ("import no_such_module", r"line 10: ModuleNotFoundError"),
        ("raise SystemExit(3)", r"line 10: SystemExit: 3"),
        ("c.FixedQuota.defualt = 1", r"line 10: c\.FixedQuota\.defualt"),
    ],
)
async def test_the_message_names_file_and_line(path, line, words):
    policy = load(path)
    path.write_text(GOOD + line + "\n")
    await policy.refresh()
    assert policy.error is not None
    assert policy.error.startswith(str(path))
    with pytest.raises(ConfigFileError, match=words):
        load(path)


async def test_a_bad_key_deep_in_a_dict_is_found(path):
    path.write_text(GOOD.replace('        "quota": 1,', '        "quota": 1,\n        "limits": 2,'))
    with pytest.raises(ConfigFileError, match=r"line 8: c\.TrainingQueues\.queues\['nlp'\]\['limits'\]"):
        load(path)


async def test_files_that_the_file_loads_are_watched_and_named(path, tmp_path):
    other = tmp_path / "quotas.py"
    other.write_text('c.FixedQuota.users = {"ann": 1}\n')
    path.write_text(GOOD + 'load_subconfig("quotas.py")\n')
    policy = load(path)
    assert policy.current.user_quotas == {"ann": 1000}
    other.write_text('# two\nc.FixedQuota.users = {\n  "ann": 2.5}\n')
    assert await policy.refresh()
    assert policy.error is not None
    assert policy.error.startswith(f"{other}, line 3: c.FixedQuota.users['ann'] = 2.5")
    other.write_text('c.FixedQuota.users = {"ann": 2}\n')
    assert await policy.refresh()
    assert policy.current.user_quotas == {"ann": 2000}


async def test_a_missing_file_is_an_error_at_the_start_and_a_message_later(path, tmp_path):
    with pytest.raises(ConfigFileError, match="cannot be read"):
        load(tmp_path / "nowhere.py")
    policy = load(path)
    path.unlink()
    assert await policy.refresh()
    assert policy.current.default_quota == 250
    assert policy.error is not None
    path.write_text(GOOD)
    assert await policy.refresh()
    assert policy.error is None


async def test_a_slow_file_does_not_hold_the_loop_up(path):
    policy = load(path)
    path.write_text("import time\ntime.sleep(0.3)\n" + GOOD)
    ticks = 0
    refreshing = asyncio.create_task(policy.refresh())
    while not refreshing.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert await refreshing
    assert ticks > 10


async def test_a_file_that_lacks_a_name_of_the_hub_says_so(path):
    path.write_text("c.JupyterHub.authenticator_class = DummyAuthenticator\n")
    with pytest.raises(ConfigFileError, match=r"line 1: NameError: .*DummyAuthenticator"):
        load(path)


@pytest.mark.parametrize(
    ("source", "trait", "keys", "line"),
    [
        ("c.A.b = 1\nc.A.b = 2", "A.b", (), 2),
        ("c.A.b.update({\n'k': 1})", "A.b", ("k",), 2),
        ("c.A.b.update(\n  k=1)", "A.b", ("k",), 2),
        ("c.A.b['k'] = 1", "A.b", ("k",), 1),
        ("if True:\n    c.A.b = 1", "A.b", (), 2),
        ("c = get_config()\nx = c.A\nx.b = 1", "A.b", (), None),
        ("c.Other.b = 1", "A.b", (), None),
        ("c.A.b = (", "A.b", (), None),
    ],
)
async def test_where_a_trait_is_set(source, trait, keys, line):
    assert find_line(source, trait, keys) == line

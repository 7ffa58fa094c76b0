"""The config file: what is in force, when it changes, and what its author is told."""

import asyncio
import json
import logging
import re
import sys
import threading

import pytest

from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.controller.settings import reading
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.config_lines import find_duplicates, find_line
from jupyter_gq.controller.settings.last_good import LastGood
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.controller.settings.start_sections import StartSections
from tests.fakes import a_node
from tests.patience import scaled

from .policy_files import load

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


async def look(policy):
    """Look twice: a change counts when two looks find the same content."""
    first = await policy.refresh()
    return await policy.refresh() or first


def stored_by(policy):
    """What a service keeps of its policy, as it comes back from the database."""
    return LastGood.from_document(json.loads(json.dumps(policy.last_good.to_document())))


async def test_a_change_takes_effect_at_the_next_look(path, caplog):
    policy = load(path)
    assert policy.current.default_quota == 250
    assert not await look(policy)
    caplog.set_level(logging.INFO)
    path.write_text(GOOD.replace('"0.25"', '"0.5"'))
    assert await look(policy)
    assert (policy.current.default_quota, policy.error) == (500, None)
    assert not await look(policy)
    assert len([record for record in caplog.records if "loaded again" in record.getMessage()]) == 1


async def test_an_empty_list_of_groups_opens_the_queue_and_the_log_says_so(path, caplog):
    path.write_text('c.TrainingQueues.queues = {"nlp": {"quota": 1, "groups": ["nlp"]}}\n')
    policy = load(path)
    path.write_text('c.TrainingQueues.queues = {"nlp": {"quota": 1, "groups": []}}\n')
    assert await look(policy)
    assert "other users or groups may use queue nlp: groups nlp -> everybody" in caplog.text


async def test_a_bad_change_leaves_the_old_settings_in_force_until_it_is_mended(path, caplog):
    policy = load(path)
    before = policy.current
    path.write_text(GOOD.replace('"0.25"', "1.5"))
    assert await look(policy)
    assert policy.current is before
    assert policy.error == (
        f"{path}, line 3: c.FixedQuota.default = 1.5: it is neither a fraction of one GPU nor a whole number of GPUs. "
        "Use a fraction below 1, or 1 or 2."
    )
    assert not await look(policy)
    assert len([record for record in caplog.records if "refused" in record.getMessage()]) == 1
    path.write_text(GOOD.replace('"0.25"', "1"))
    assert await look(policy)
    assert (policy.current.default_quota, policy.error) == (1000, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("def x(:", r"line 10: this is not valid Python"),
        ("c.FixedQuota.default = 1 / 0", r"line 10: ZeroDivisionError: division by zero"),
        ("import no_such_module", r"line 10: ModuleNotFoundError"),
        ("raise SystemExit(3)", r"line 10: SystemExit: 3"),
        ("__import__('os')._exit(3)", r"line 10: EndsTheProcess: os\._exit would end the Hub and the service"),
        ("__import__('os').abort()", r"line 10: EndsTheProcess: os\.abort would end the Hub and the service"),
        ("c.FixedQuota.defualt = 1", r"line 10: c\.FixedQuota\.defualt"),
    ],
)
async def test_the_message_names_file_and_line(path, line, words):
    policy = load(path)
    path.write_text(GOOD + line + "\n")
    await look(policy)
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
    assert await look(policy)
    assert policy.error is not None
    assert policy.error.startswith(f"{other}, line 3: c.FixedQuota.users['ann'] = 2.5")
    other.write_text('c.FixedQuota.users = {"ann": 2}\n')
    assert await look(policy)
    assert policy.current.user_quotas == {"ann": 2000}


BASE = 'c.FixedQuota.users = {"ann": %s}\n'


@pytest.mark.parametrize(
    ("lines", "base", "where"),
    [
        (['load_subconfig("base.py")', BASE % 2.5], [BASE % 1], "jupyterhub_config.py, line 2"),
        ([BASE % 1, 'load_subconfig("base.py")'], ["", BASE % 2.5], "base.py, line 2"),
        ([BASE % 1, 'load_subconfig("base.py")', BASE % 2.5], [BASE % 1], "jupyterhub_config.py, line 3"),
        (["def also():", '    load_subconfig("base.py")', "", BASE % 1, "also()"], [BASE % 2.5], "base.py, line 1"),
        (['for n in ("base.py", "next.py"): load_subconfig(n)'], [BASE % 1], "next.py, line 3"),
        (['load_subconfig("next.py")', 'load_subconfig("base.py")'], [BASE % 2.5], "base.py, line 1"),
        (['load_subconfig("middle.py")', BASE % 2.5], [BASE % 1], "jupyterhub_config.py, line 2"),
        (['load_subconfig("middle.py")'], [BASE % 2.5], "base.py, line 1"),
    ],
)
async def test_the_line_that_counts_is_named_where_a_file_loads_another(path, tmp_path, lines, base, where):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text("\n".join(line.strip("\n") for line in lines))
    (tmp_path / "base.py").write_text("\n".join(base))
    (tmp_path / "middle.py").write_text((BASE % 1) + 'load_subconfig("base.py")\n')
    (tmp_path / "next.py").write_text("\n\n" + BASE % 2.5)
    with pytest.raises(ConfigFileError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{tmp_path / where.split(',')[0]}, {where.split(', ')[1]}: c.FixedQuota")


async def test_a_file_that_loads_itself_once_is_looked_through(path, tmp_path):
    path.write_text(
        f"import sys\n{BASE % 2.5}if not sys.__dict__.pop('_twice', False):\n"
        "    sys._twice = True\n    load_subconfig(__file__)\n"
    )
    with pytest.raises(ConfigFileError, match=r"line 2: c\.FixedQuota"):
        load(path)


async def test_a_missing_file_is_an_error_at_the_start_and_a_message_later(path, tmp_path):
    with pytest.raises(ConfigFileError, match="there is no such file"):
        load(tmp_path / "nowhere.py")
    policy = load(path)
    path.unlink()
    assert await look(policy)
    assert policy.current.default_quota == 250
    assert policy.error is not None
    path.write_text(GOOD)
    assert await look(policy)
    assert policy.error is None


async def test_a_slow_file_does_not_hold_the_loop_up(path, monkeypatch):
    policy, gate = load(path), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    monkeypatch.setattr(reading, "MOMENT", scaled(60))
    path.write_text(f"import sys\nsys.modules['gate'].wait({scaled(30)})\n{GOOD}")
    refreshing = asyncio.create_task(look(policy))
    for _ in range(11):
        await asyncio.sleep(0.01)
        assert not refreshing.done()
    gate.set()
    assert await refreshing


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


@pytest.mark.parametrize(
    "line",
    [
        'c.Pools.pools = {"build": {"devices": [[0]]}}',
        'c.Pools.pools = {"build": {"devices": [{}]}}',
        "c.IdlePolicy.after = 10**400",
        'c.TrainingQueues.queues = {"vision": {"quota": 1, "reclaim_min_runtime": 10**400}}',
        "c.Fairness.half_life = 10**5000",
        'loop = {}; loop["vision"] = loop; c.TrainingQueues.queues = loop',
    ],
)
async def test_a_value_of_any_type_and_size_is_refused_and_stays_refused(path, line):
    policy = load(path)
    path.write_text(GOOD + line + "\n")
    assert await look(policy)
    assert policy.error
    assert not await look(policy)
    assert policy.error
    assert policy.current.default_quota == 250


async def test_a_file_that_is_edited_while_it_is_executed_is_loaded_again(path):
    policy = load(path)
    edit = f"__import__('pathlib').Path({str(path)!r}).write_text({GOOD.replace('0.25', '0.75')!r})\n"
    path.write_text(GOOD.replace("0.25", "0.5") + edit)
    assert await look(policy)
    assert policy.current.default_quota == 500
    assert await look(policy)
    assert (policy.current.default_quota, policy.error) == (750, None)


async def test_a_file_that_is_being_written_is_not_executed(path):
    policy = load(path)
    path.write_text('c.FixedQuota.default = "0.5"\n')
    assert not await policy.refresh()
    path.write_text(GOOD.replace('"0.25"', '"0.5"'))
    assert not await policy.refresh()
    assert await policy.refresh()
    assert (policy.current.default_quota, len(policy.current.training)) == (500, 2)


QUOTAS = """c = get_config()  # noqa
c.TrainingQueues.queues = {"vision": {"quota": 1}}
c.TrainingQueues.queues["nlp"] = {"quota": 1}
c.FixedQuota.groups = {"vision": "0.5"}
c.FixedQuota.users = {"ann": 1}
c.IdlePolicy.always = True
"""


@pytest.mark.parametrize("length", range(len(QUOTAS)))
async def test_no_beginning_of_a_file_takes_a_queue_or_a_quota_away(path, length):
    """The file was cut off, wherever: by a full disk, or by an editor that writes slowly."""
    path.write_text(QUOTAS)
    policy = load(path)
    stored = stored_by(policy)
    path.write_text(QUOTAS[:length])
    await look(policy)
    for each in (policy, load(path, stored)):
        settings = each.current
        assert [entry.queue.name for entry in settings.training] == ["nlp", "vision"] or [
            entry.queue.name for entry in settings.training
        ] == ["vision", "nlp"]
        assert (settings.group_quotas, settings.user_quotas) == ({"vision": 500}, {"ann": 1000})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is cut off: it has the first 0 of"),
        (GOOD[:150], "is cut off|not valid Python"),
        ("# all is gone\n", r"c\.TrainingQueues\.queues has no entries any more, and these are in force: nlp, vision"),
        ("c.TrainingQueues.queues = {}\n", r"add this line: c\.SchedulerService\.allow_empty = \['TrainingQueues"),
        ("c.SchedulerService.allow_empty = True\n", r"add this line: c\.SchedulerService\.allow_empty = \['Training"),
        ("c.SchedulerService.allow_empty = 'TrainingQueues.queues'\n", "has no entries any more"),
    ],
)
async def test_a_file_that_lost_all_queues_is_refused_with_how_to_confirm_it(path, text, words):
    policy = load(path)
    before = policy.current
    path.write_text(text)
    assert await look(policy)
    assert policy.current is before
    assert policy.error is not None
    assert re.search(words, policy.error)


@pytest.mark.parametrize("text", ["", "\n", "# later\n", "import os\n", "c.FixedQuota\n"])
async def test_a_file_that_sets_nothing_any_more_is_refused_although_it_had_no_entries(path, text):
    path.write_text('c.FixedQuota.default = "0.5"\n')
    policy = load(path)
    stored = stored_by(policy)
    path.write_text(text)
    await look(policy)
    for each in (policy, load(path, stored)):
        assert each.current.default_quota == 500
        assert each.error is not None
        assert re.search("is cut off|sets nothing any more", each.error)
    path.write_text("c.SchedulerService.allow_empty = []\n")
    assert await look(policy)
    assert (policy.error, policy.current.default_quota) == (None, 250)


async def test_a_confirmed_loss_of_all_queues_is_accepted(path):
    policy = load(path)
    path.write_text("c.SchedulerService.allow_empty = ['TrainingQueues.queues']\n")
    assert await look(policy)
    assert (policy.error, policy.current.training) == (None, ())


@pytest.mark.parametrize("lost", ["FixedQuota.users", "FixedQuota.groups", "Pools.pools"])
async def test_quotas_and_pools_are_not_lost_by_accident_either(path, lost):
    full = """c.FixedQuota.users = {"ann": 1}
c.FixedQuota.groups = {"vision": "0.5"}
c.Pools.pools = {"shared": {"devices": 2}}
"""
    path.write_text(full)
    policy = load(path)
    path.write_text("# new\n" + "".join(line for line in full.splitlines(keepends=True) if lost not in line))
    assert await look(policy)
    assert policy.error is not None
    assert f"c.{lost} has no entries any more" in policy.error


async def test_the_last_lines_of_a_file_can_be_removed(path):
    path.write_text(GOOD + "c.IdlePolicy.always = True\n")
    policy = load(path)
    path.write_text(GOOD)
    assert await look(policy)
    assert (policy.error, policy.current.policy.idle.always) == (None, False)


async def test_one_queue_of_several_can_be_removed(path):
    policy = load(path)
    path.write_text('c.TrainingQueues.queues = {"nlp": {"quota": 1}}\n')
    assert await look(policy)
    assert (policy.error, [entry.queue.name for entry in policy.current.training]) == (None, ["nlp"])


@pytest.mark.parametrize("text", ["def x(:", "", "c.FixedQuota.default = 1.5\n", "import nothing_like_that\n", None])
async def test_a_start_with_a_bad_file_uses_the_stored_settings_and_says_so(path, text, caplog):
    first = load(path)
    stored = stored_by(first)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    policy = PolicyFile.at_start(path, lambda: (a_node(2),), StartSections(), stored, None)
    assert policy.current == first.current
    assert policy.error is not None
    assert "the service starts with the last good ones" in caplog.text
    path.write_text(GOOD.replace('"0.25"', '"0.5"'))
    assert await look(policy)
    assert (policy.error, policy.current.default_quota) == (None, 500)


async def test_a_start_with_a_good_file_does_not_use_the_stored_settings(path):
    stored = stored_by(load(path))
    path.write_text(GOOD.replace('"0.25"', '"0.5"'))
    assert load(path, stored).current.default_quota == 500


EVERY_FORM = """c = get_config()  # noqa
c.FixedQuota.default = 0.5
c.FixedQuota.users.update({"ann": 1})
c.TrainingQueues.queues = {"vision": {"quota": 1.5, "users": {"ann", "bob"}, "groups": ("a", "b")}}
c.Pools.pools = {"shared": {"devices": [0, 1]}}
c.LocalBackend.env_keep.extend(["MINE"])
c.SchedulerService.database_url = "postgresql://user:secret@host/database"
"""


async def test_stored_settings_mean_the_same_in_every_form_that_a_file_may_use(path):
    path.write_text(EVERY_FORM)
    sections = StartSections(names={"LocalBackend": ["env_keep"], "SchedulerService": ["database_url"]})
    policy = PolicyFile(path, lambda: (a_node(2),), sections)
    stored = stored_by(policy)
    path.unlink()
    assert PolicyFile(path, lambda: (a_node(2),), sections, stored).current == policy.current
    assert LocalBackend(config=stored.to_config()).env_keep[-1] == "MINE"
    assert "secret" not in json.dumps(stored.to_document())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = {"a": 1,\n"b": 2,\n"a": 3}', ["line 3: the key 'a' is written in line 1 too. Only the last one counts."]),
        ("c.A.b = 1\nc.A.c = 2\nc.A.b = 3", ["line 3: c.A.b is written in line 1 too. Only the last one counts."]),
        (
            'c.A.b = {"q": {"k": 1, "k": 2}}',
            ["line 1: the key 'k' is written in line 1 too. Only the last one counts."],
        ),
        (
            'c.A.b["q"] = 1\nc.A.b["r"] = 2\nc.A.b["q"] = 3',
            ["line 3: c.A.b['q'] is written in line 1 too. Only the last one counts."],
        ),
        (
            'c.A.b = {\n"q": {}}\nc.A.b["q"] = {"k": 1}\nc.A.b["q"]["k"] = 2\nc.A.b["q"]["k"] = 3',
            [
                "line 3: c.A.b['q'] is written in line 2 too. Only the last one counts.",
                "line 5: c.A.b['q']['k'] is written in line 4 too. Only the last one counts.",
            ],
        ),
        ('c.A.b["q"] = 1\nc.A.b = {}\nc.A.b["q"] = 2', []),
        ('c.A.b["q"] = 1\nc.A.d["q"] = 1\nx["q"] = 1\nx["q"] = 2\nc.A.b[x] = 1\nc.A.b[x] = 2', []),
        ('os.environ["A"] = "1"\nos.environ["A"] = "2"', []),
        ('x = {"a": 1, "b": {"a": 2}}', []),
        ("if x:\n    c.A.b = 1\nelse:\n    c.A.b = 2", []),
        ("x = (", []),
    ],
)
async def test_what_is_written_twice_is_found(source, found):
    assert find_duplicates(source) == found


async def test_what_is_written_twice_is_a_warning(path, caplog):
    path.write_text(GOOD.replace('"vision": {"quota": 1},', '"vision": {"quota": 1},\n    "vision": {"quota": 0},'))
    policy = PolicyFile.at_start(path, tuple, StartSections(), None, None)
    assert policy.warnings == (f"{path}, line 6: the key 'vision' is written in line 5 too. Only the last one counts.",)
    assert policy.warnings[0] in caplog.text


async def test_a_variable_that_the_service_does_not_have_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv("GQ_SECRET", raising=False)
    path = tmp_path / "jupyterhub_config.py"
    path.write_text('import os\nsecret = os.environ["GQ_SECRET"]\n')
    told = "line 2: the environment variable 'GQ_SECRET' is not set. The Hub gives the service the variables"
    with pytest.raises(ConfigFileError, match=told):
        load(path)


@pytest.mark.parametrize(
    "line",
    ['x = {}[os.environ["GQ_SECRET"]]', 'x = os.environ.copy()["GQ_TEAM"]', 'x = {"environ": 1}["GQ_TEAM"]'],
)
async def test_a_missing_key_of_another_mapping_is_not_called_a_variable(tmp_path, monkeypatch, line):
    monkeypatch.setenv("GQ_SECRET", "red")
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(f"import os\n{line}\n")
    with pytest.raises(ConfigFileError, match=r"line 2: KeyError: '(red|GQ_TEAM)'\. Mend that line\.$"):
        load(path)


async def test_a_section_that_is_set_as_a_whole_is_refused_without_its_values(tmp_path):
    path = tmp_path / "jupyterhub_config.py"
    path.write_text('c.Notifications = {"webhook": "https://chat.example.org/hidden-word"}\n')
    told = r"line 1: a section is set as a whole\. Set each of its values by a line of its own, as in c\.IdlePolicy"
    with pytest.raises(ConfigFileError, match=told) as refused:
        load(path)
    assert "hidden-word" not in str(refused.value)

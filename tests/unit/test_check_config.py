"""`jupyter-gq check-config`: what is wrong with a file, and what it would change."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.local import check_folder, describe_unwritable
from jupyter_gq.client.connection.service_address import SocketPlace
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.demo.processes import free_port
from tests.fakes import a_node
from tests.unit.controller.world import ANN, BOB, World

NOW = """c.FixedQuota.default = "0.25"
c.FixedQuota.groups = {"vision": "0.5"}
c.FixedQuota.users = {"zoe": 1}
c.TrainingQueues.queues = {
    "top": {"quota": 3, "quota_cpus": 6, "quota_memory": "12 GiB"},
    "vision": {"quota": 2, "parent": "top"},
    "nlp": {"quota": 1, "parent": "top", "limit": 2},
}
"""


@pytest.fixture
def check(tmp_path, capsys):
    """Check a file against a service on which ann runs a server and two jobs, and bob one job."""
    current = tmp_path / "current.py"
    current.write_text(NOW)
    nodes = (a_node(4),)
    policy = PolicyFile(current, lambda: nodes)
    world = World(tmp_path, settings=policy.current, nodes=nodes)
    world.settings.last_good = policy.last_good

    async def fill():
        await world.start_server(ANN, "0.5", "lab")
        world.send(ANN, "vision", "1", name="old")
        await world.step(2)
        world.send(ANN, "vision", "1", name="young")
        world.send(BOB, "nlp", "1", name="bobs", cpus=4, memory="8 GiB")
        await world.step(3)

    asyncio.run(fill())
    state = tmp_path / "state.json"
    state.write_text(json.dumps(world.controller.overview.read_state()))
    world.close()

    def run(text, *, compare=True):
        file = tmp_path / "jupyterhub_config.py"
        file.write_text(text)
        code = main(["check-config", str(file), *(["--state", str(state)] if compare else [])])
        return code, capsys.readouterr().out.replace(str(file), "FILE")

    return run


def test_a_file_that_changes_nothing_says_so(check):
    assert check(NOW) == (
        0,
        "FILE can be used.\nNo quota is lower than now.\nNo running work becomes over quota.\n",
    )


def test_a_quota_that_python_does_not_write_is_refused_in_one_sentence(check):
    code, told = check(NOW + '\nc.TrainingQueues.queues["vision"]["quota"] = 10**5000\n')
    assert (code, "a number of more than 4300 digits" in told) == (1, True), told
    assert "Traceback" not in told


def test_a_variable_that_only_the_hub_has_is_named_with_what_to_do_for_the_command(check, monkeypatch):
    monkeypatch.delenv("HUB_PASSWORD", raising=False)
    code, told = check('import os\nsecret = os.environ["HUB_PASSWORD"]\n', compare=False)
    assert code == 1
    assert "'HUB_PASSWORD' is not set." in told
    assert told.endswith("For a command, set it in your shell.\n")


@pytest.fixture
def as_nobody():
    """The rights of an account that owns nothing, if the tests run as root."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield
        os.seteuid(0)
    else:
        yield


@pytest.mark.parametrize("below", ["", "/new/folder"])
def test_a_state_folder_in_which_nobody_may_write_is_said(as_nobody, below):
    said = describe_unwritable(f"/{below}", "state folder")
    assert said.startswith(f"the account {os.geteuid()}, which runs this check, may not write in /.")
    assert said.endswith(f"state folder {Path(f'/{below}').resolve()}")


def test_check_config_says_that_it_may_not_write_in_the_state_folder(check, tmp_path):
    if os.access("/proc/sys", os.W_OK):
        pytest.skip("this account may write in every folder")
    lines = (
        f'c.SchedulerService.state_dir = "/proc/sys/gq"\nc.SchedulerService.database_url = "sqlite:///{tmp_path}/gq"\n'
    )
    code, told = check(NOW + lines, compare=False)
    assert code == 0, "the account of the Hub may have the right"
    assert "may not write in /proc/sys. The account of the Hub needs that right" in told
    code, told = check(NOW + 'c.SchedulerService.state_dir = "gq"\n', compare=False)
    assert "may not write" not in told


@pytest.fixture
def closed():
    """A folder of root, into which no other account may look."""
    if os.geteuid() != 0:
        pytest.skip("only root can take the rights of another account")
    with tempfile.TemporaryDirectory(prefix="gq-closed-") as folder:
        yield folder


def test_a_state_folder_into_which_this_account_may_not_look_is_not_refused(closed, as_nobody):
    state = f"{closed}/gq/state"
    check_folder(state, "state_dir", "state folder")
    SocketPlace.own("", f"{closed}/gq/socket", Path("/")).check_folder()
    assert f"may not write in {closed}." in describe_unwritable(state, "state folder")


def test_without_a_service_only_the_file_is_checked(check):
    code, told = check(NOW, compare=False)
    assert code == 0
    assert "Nothing is compared: name a running service with --url" in told


@pytest.mark.parametrize("devices", ["1", "[0]", '["GPU-a"]'])
def test_without_a_service_pools_of_devices_are_not_compared_with_this_machine(check, devices):
    pools = 'c.Pools.pools = {"build": {"devices": 1}, "train": {"devices": %s}}\n'
    assert check(NOW + pools % devices, compare=False)[0] == 0


@pytest.mark.parametrize(("devices", "said"), [("A100-40GB", "1 simulated GPU"), ("2x A100-40GB", "2 simulated GPUs")])
def test_quotas_that_this_machine_cannot_keep_are_probably_not_meant(check, devices, said):
    here = f'c.SimulatedDevices.mode = "always"\nc.SimulatedDevices.devices = "{devices}"\n'
    here += "c.LocalBackend.cpus = 8\nc.LocalBackend.memory = 48\n"
    code, told = check(NOW + here, compare=False)
    assert code == 0, "the service may run on another machine"
    doubts = told.partition("Probably not meant:\n")[2]
    assert f"a service on this machine, with its {said}, does not start with this: c.TrainingQueues.queues" in doubts
    assert "Probably" not in check(NOW + here.replace(devices, "3x A100-40GB"), compare=False)[1]
    on_a_cluster = 'c.SchedulerService.backend = "kubernetes"\n'
    assert "this machine" not in check(NOW + here + on_a_cluster, compare=False)[1]


def test_gpus_that_are_simulated_for_want_of_others_are_not_compared(check):
    assert "this machine" not in check(NOW.replace('"quota": 3', '"quota": 300'), compare=False)[1]


def test_without_a_service_wrong_types_in_pools_are_still_found(check):
    code, told = check(NOW + 'c.Pools.pools = {"build": {"devices": 1}, "train": {"devices": [[0]]}}\n', compare=False)
    assert code == 1
    assert "it is neither an index nor a UUID" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def x(:", "line 1: this is not valid Python"),
        (NOW + "c.FixedQuota.default = 1.5\n", "line 9: c.FixedQuota.default = 1.5"),
        (NOW + "c.LocalBackend.cpus = 'many'\n", "c.LocalBackend.cpus = 'many'"),
        (NOW + "c.SchedulerService.backend = 'kubernets'\n", "backend"),
        ("c.FixedQuota.default = '0.25'\n", "these are in force: nlp, top, vision"),
        (NOW + "raise KeyboardInterrupt\n", "line 9: KeyboardInterrupt"),
        (NOW + "c.SchedulerService.database_url = 'mysql://db/gq'\n", "There is no store on 'mysql'"),
        (NOW + "c.SchedulerService.database_url = 'sqlite://'\n", "The store needs a file"),
        (NOW + "c.SchedulerService.database_url = 'nonsense'\n", "The URL of the database cannot be read."),
        (NOW + "c.SchedulerService.state_dir = '/dev/null/gq'\n", "/dev/null is not a folder"),
        (NOW + "c.SchedulerService.state_dir = 'a\\0b'\n", "the state folder cannot be there"),
        (NOW + "c.SchedulerService.socket_dir = '/dev/null/gq'\n", "/dev/null is not a folder"),
        (NOW + "c.JupyterHub.spawner_class = 'jupyter_gq.hub.local.None'\n", "the Hub cannot import it"),
        (NOW + "c.JupyterHub.spawner_class = ''\n", "the Hub cannot import it"),
        (NOW + 'c.Pools.pools = {"build": {"devices": [0]}, "train": {"devices": [1, 0]}}', "0 is already in the pool"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(check, text, words, caplog):
    code, told = check(text)
    assert code == 1
    assert not caplog.records, "no service starts, and the sentence is said once"
    assert told.startswith("FILE cannot be used. ")
    assert words in told


def test_a_binary_file_is_said_to_be_no_text(check, tmp_path, capsys):
    file = tmp_path / "binary.py"
    file.write_bytes(bytes(range(256)))
    assert main(["check-config", str(file)]) == 1
    assert "None" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["jupyter-gq", "jupyterhub.spawner.LocalProcessSpawner"])
def test_a_spawner_that_the_hub_finds_is_good(check, name):
    assert check(NOW + f"c.JupyterHub.spawner_class = {name!r}\n", compare=False)[0] == 0


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def x(:", "SyntaxError: "),
        ("import os; os.nothing", "AttributeError: module 'os' has no attribute 'nothing'"),
        ("1 + ''", "TypeError: unsupported operand"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os._exit(3)", "EndsTheProcess: "),
        ("class E(BaseException): pass\nraise E('why')", "E: why"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_spawner_whose_module_fails_is_told_in_one_sentence(check, tmp_path, monkeypatch, code, told):
    (tmp_path / "broken_spawner.py").write_text(code + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_spawner", raising=False)
    status, said = check(NOW + "c.JupyterHub.spawner_class = 'broken_spawner.Own'\n", compare=False)
    assert (status, said.count("\n")) == (1, 1), said
    assert f"c.JupyterHub.spawner_class = 'broken_spawner.Own': the Hub cannot import it ({told}" in said
    assert "Mend its module 'broken_spawner', or name another class." in said


@pytest.mark.parametrize("code", ["1 / 0", "import jupyterhub.no_such", "class Other: pass", "class Own: pass"])
def test_a_spawner_named_by_a_package_is_imported_too(check, tmp_path, monkeypatch, code):
    (tmp_path / "broken_package.py").write_text(code + "\n")
    info = tmp_path / "broken_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_package\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[jupyterhub.spawners]\nOurs = broken_package:Own\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    status, said = check(NOW + "c.JupyterHub.spawner_class = 'ours'\n", compare=False)
    if "no_such" in code:  # of another package, which may be where the Hub runs
        assert status == 0
        return
    assert (status, said.count("\n")) == (1, 1), said
    assert "c.JupyterHub.spawner_class = 'ours': the Hub cannot import it (" in said


@pytest.mark.parametrize("name", ["os.path", "collections.OrderedDict"])
def test_a_spawner_that_is_no_class_of_spawners_is_told(check, name):
    code, told = check(NOW + f"c.JupyterHub.spawner_class = '{name}'\n", compare=False)
    assert (code, "is no class of spawners). Write the name as in the documentation" in told) == (1, True), told


@pytest.mark.parametrize("text", ["", "c.JupyterHub.port = 8000\n"])
def test_a_file_that_sets_nothing_of_the_product_is_probably_not_meant(check, text):
    code, told = check(text, compare=False)
    assert code == 0
    assert "Probably not meant:\n  the file sets nothing of jupyter-gq" in told


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ('"0.25"', '"0.1"', ["users who are named nowhere: 0.25 GPU -> 0.1 GPU", "user bob: 0.25 GPU -> 0.1 GPU"]),
        ('"vision": "0.5"', '"vision": "0.3"', ["group vision: 0.5 GPU -> 0.3 GPU", "user ann: 0.5 GPU -> 0.3 GPU"]),
        ('"vision": "0.5"', '"nlp": "0.5"', ["group vision: 0.5 GPU -> 0.25 GPU", "user ann: 0.5 GPU -> 0.25 GPU"]),
        ('{"zoe": 1}', '{"zoe": "0.5"}', ["user zoe: 1 GPU -> 0.5 GPU"]),
        ('{"zoe": 1}', '{"ann": 1}', ["user zoe: 1 GPU -> 0.25 GPU"]),
        ('"quota": 2, "parent"', '"quota": 1, "parent"', ["queue vision, quota: 2 GPU -> 1 GPU"]),
        ('"limit": 2', '"limit": 1', ["queue nlp, limit: 2 GPU -> 1 GPU"]),
        ('"limit": 2', '"limit": 2, "limit_cpus": 4', ["queue nlp, limit_cpus: none -> 4 CPU cores"]),
        ('"limit": 2', '"limit": 2, "limit_memory": "8Gi"', ["queue nlp, limit_memory: none -> 8 GiB"]),
        ('    "nlp": {"quota": 1, "parent": "top", "limit": 2},\n', "", ["queue nlp: 1 GPU -> the queue is removed"]),
    ],
)
def test_who_loses_quota_is_listed(check, old, new, lines):
    code, told = check(NOW.replace(old, new))
    assert code == 0
    (_, _, rest) = told.partition("Lower than now:\n")
    listed = [line.strip() for line in rest.splitlines() if line.startswith("  ")]
    assert listed[: len(lines)] == lines


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            '"quota": 2, "parent"',
            '"quota": 1, "parent"',
            ["ann's job young in vision: 1 GPU above the quota of the queue"],
        ),
        (
            '"quota": 2, "parent"',
            '"quota": "0.5", "parent"',
            [
                "ann's job old in vision: 0.5 GPU above the quota of the queue",
                "ann's job young in vision: 1 GPU above the quota of the queue",
            ],
        ),
        (
            '"quota_cpus": 6',
            '"quota_cpus": "2.5"',
            ["bob's job bobs in nlp: 1.5 CPU cores above the quota of the queue"],
        ),
        (
            '"quota": 3, "quota_cpus": 6, "quota_memory": "12 GiB"',
            '"quota": 3, "quota_cpus": 3, "quota_memory": "7 GiB"',
            ["bob's job bobs in nlp: 1 CPU core, 1 GiB above the quota of the queue"],
        ),
        ('"quota_cpus": 6', '"quota_cpus": 4', []),
        ('"vision": "0.5"', '"vision": "0.3"', ["ann's servers: 0.2 GPU above the fixed quota of 0.3"]),
        (
            '    "nlp": {"quota": 1, "parent": "top", "limit": 2},\n',
            "",
            ["bob's job bobs in nlp: the queue is removed"],
        ),
    ],
)
def test_running_work_that_becomes_over_quota_is_listed(check, old, new, lines):
    _, told = check(NOW.replace(old, new))
    (_, _, rest) = told.partition("becomes over quota, and may be paused or stopped for others:\n")
    assert [line.strip() for line in rest.splitlines()] == lines


def test_running_work_that_a_lowered_limit_stops_is_listed(check):
    _, told = check(NOW.replace('"quota": 1, "parent": "top", "limit": 2', '"quota": 0, "parent": "top", "limit": 0'))
    (_, _, rest) = told.partition("Running work that is paused or stopped as soon as the file is in force:\n")
    (line,) = rest.splitlines()
    assert line.startswith(
        "  bob's job bobs in nlp. Paused: the limit of nlp was lowered to 0 GPU, less than it needs."
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"limit": 2', '"limit": 2, "groups": ["nlp"], "users": ["zoe"]', "nlp: everybody -> users zoe; groups nlp"),
        ('    "nlp"', '    "speech": {"groups": []},\n    "nlp"', "speech: nobody -> everybody"),
    ],
)
def test_queues_that_other_users_may_use_are_listed(check, old, new, line):
    code, told = check(NOW.replace(old, new))
    assert code == 0
    assert f"Other users or groups may use:\n  queue {line}\n" in told


def test_what_is_probably_not_meant_is_listed(check):
    _, told = check(NOW.replace('{"zoe": 1}', '{"zoe": 1, "zoe": 1}'))
    assert "Probably not meant:\n  FILE, line 3: the key 'zoe' is written in line 3 too." in told


def test_a_trait_that_a_spawner_of_ours_does_not_have_is_probably_not_meant(check):
    lines = "c.GQLocalSpawner.gpu_queue_timeot = 1\nc.GQLocalSpawner.start_timeout = 60\nc.GQLocalSpawner.zebra = 1\n"
    code, told = check(NOW + lines, compare=False)
    doubts = told.partition("Probably not meant:")[2]
    assert (code, "start_timeout" in doubts) == (0, False)
    assert "c.GQLocalSpawner.zebra: there is no such trait, so that it has no effect." in doubts
    assert "c.GQLocalSpawner.gpu_queue_timeot: there is no such trait, so that it has no effect." in doubts
    assert "Did you mean c.GQLocalSpawner.gpu_queue_timeout?" in doubts


@pytest.mark.parametrize(
    "line", ["c.Notifications.webhok = 'https://7654321'", "c.Notifications.webhook_headers = {'a': {'b': open}}"]
)
def test_a_value_that_may_be_secret_is_refused_with_its_line_and_not_shown(check, line):
    code, told = check(f"{NOW}{line.replace('open', '(s for s in [7654321])')}\n", compare=False)
    assert (code, "c.Notifications.webho" in told, "'…': " in told) == (1, True, True)
    assert "7654321" not in told


#: Sections of other packages, of which some are a little like ours.
OTHERS = (
    "JupyterHub", "Spawner", "LocalProcessSpawner", "SimpleLocalProcessSpawner", "SystemdSpawner", "KubeSpawner",
    "DockerSpawner", "Authenticator", "LocalAuthenticator", "PAMAuthenticator", "LDAPAuthenticator", "OAuthenticator",
    "GenericOAuthenticator", "KubernetesAuthenticator", "NativeAuthenticator", "Proxy", "ConfigurableHTTPProxy",
    "TraefikProxy", "ServerApp", "ServerProxy", "NotebookApp", "LabApp", "ResourceUseDisplay", "Application", "Nope",
)  # fmt: skip


def test_nothing_is_said_of_sections_of_other_packages(check):
    code, told = check(NOW + "".join(f"c.{name}.zebra = 7\n" for name in OTHERS), compare=False)
    assert (code, "Probably" in told) == (0, False)


def test_names_of_queues_that_look_the_same_are_listed(check):
    _, told = check(
        NOW.replace(
            '"top": {"quota": 3, "quota_cpus": 6, "quota_memory": "12 GiB"}',
            '"caf\\xe9": {}, "cafe\\u0301": {}, "cafe": {}, "top": {}',
        )
    )
    assert r"the names 'caf\xe9' and 'cafe\u0301' are easily confused, and are two queues. Keep one of them." in told
    assert told.count("easily confused") == 1


def test_a_missing_file_is_said_to_be_missing(tmp_path, capsys):
    assert main(["check-config", str(tmp_path / "missing.py")]) == 1
    assert "missing.py: there is no such file that can be read. Check the path" in capsys.readouterr().out


def test_a_service_that_does_not_answer_is_told_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "a-token")
    (tmp_path / "config.py").write_text(NOW)
    address = f"http://127.0.0.1:{free_port()}/services/jupyter-gq"
    assert main(["check-config", str(tmp_path / "config.py"), "--url", address, "--no-wait"]) == 4
    assert capsys.readouterr().err.startswith("jupyter-gq check-config: ")


def test_what_is_probably_not_meant_is_told_once(check, caplog):
    _, told = check(NOW + "c.IdlePolicy.suspend = True\nc.IdlePolicy.suspend = False\n", compare=False)
    assert told.count("Only the last one counts.") == 1
    assert not caplog.messages


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("c.FixedQuota.default = Odd()", "c.FixedQuota.default = a value of the type Odd: it is not a number."),
        ("c.SimulatedDevices.needed = Odd()", "a setting has a value that cannot be used (RuntimeError: odd)"),
    ],
)
def test_a_value_that_python_cannot_write_is_refused_with_a_sentence(check, setting, said):
    odd = "class Odd:\n    def __repr__(self):\n        raise RuntimeError('odd')\n"
    code, told = check(f"{NOW}{odd}{setting}\n")
    assert code != 0
    assert said in told


ON_A_CLUSTER = NOW + 'c.SchedulerService.backend = "kubernetes"\nc.KubernetesBackend.bundle_url = "%s"\n'


def test_a_url_with_credentials_is_refused_and_not_shown(check):
    code, told = check(ON_A_CLUSTER % "s3://key:hidden-word@bucket")
    assert code == 1
    assert "bundle_url = '…': the URL has credentials before \"@\"" in told
    assert "in variables of its environment" in told
    assert "hidden" not in told


@pytest.mark.parametrize("setting", ["bundle_url", "checkpoint_url"])
def test_a_url_of_no_place_that_lasts_is_refused_where_it_is_set(check, setting):
    code, told = check(f'{NOW}c.KubernetesBackend.{setting} = "file://hidden-folder"\n')
    assert code == 1
    assert f"KubernetesBackend.{setting} = '…': it has a relative path; write three slashes" in told
    assert "Set the URL of a store that lasts, such as s3://bucket/folder." in told
    assert "hidden" not in told


def test_the_url_of_large_files_is_tried_and_what_fails_is_said(check, tmp_path):
    missing, place = tmp_path / "not-mounted", tmp_path / "objects"
    place.mkdir()
    code, told = check(ON_A_CLUSTER % f"file://{missing}")
    assert code == 0, "the service may have what this machine lacks"
    assert f"bundle_url, file://{missing}, cannot be used: FileNotFoundError" in told
    assert "This was tried from here" in told
    assert not missing.exists()
    code, told = check(ON_A_CLUSTER % f"file://{place}")
    assert code == 0
    assert "bundle_url" not in told
    assert not list(place.iterdir()), "the check leaves nothing"


@pytest.mark.parametrize("text", ['c.KubernetesBackend.bundle_url = "quite://x"\n', ""])
def test_a_url_of_large_files_is_tried_where_it_is_used_only(check, text):
    assert "bundle_url" not in check(NOW + text)[1]


def test_a_kind_of_url_that_is_not_known_here_is_said(check):
    code, told = check(ON_A_CLUSTER % "quite://x")
    assert code == 0
    assert "bundle_url is of a kind that is not known, 'quite://'" in told

"""The configuration helper and the files that use it, loaded as the hub loads them."""

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import pytest
from tornado.netutil import bind_sockets
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.hub import config as hub_config
from jupyter_gq.hub.config import build_proxy_command, configure
from jupyter_gq.hub.config_kubernetes import configure_kubernetes
from jupyter_gq.hub.config_parts import USER_SCOPES
from tests.hub.real_hub import PATIENCE, PYTHON, ROOT
from tests.patience import scaled

HELPER = "from jupyter_gq.hub.config import configure\n"


KUBERNETES = "from jupyter_gq.hub.config_kubernetes import configure_kubernetes\n"
#: What Zero to JupyterHub has set, in its own file, when it executes those of jupyterhub_config.d.
BEFORE = """
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.base_url = "/"
c.JupyterHub.last_activity_interval = 60
c.JupyterHub.template_paths = []
c.JupyterHub.services = [
    {"name": "jupyter-gq", "url": "http://gq-service:8089", "api_token": "made-by-the-chart",
     "oauth_no_confirm": False}]
c.JupyterHub.load_roles = [{"name": "mine", "scopes": ["read:hub"]}]
c.KubeSpawner.scheduler_name = "release-user-scheduler"
name = "jupyterhub_config_kubernetes.py"
with open(name) as file:
    exec(compile(file.read(), name, "exec"))
c.GPUShareMixin.service_url = "http://gq-service.hub.svc:8089/services/jupyter-gq/"
"""
FILES = {
    "plain-hub.py": KUBERNETES
    + "configure_kubernetes(c, service_url='http://gq:8089/', service_token='of-the-test', admins={'root'})\n",
    "zero-to-jupyterhub.py": BEFORE,
    "misspelt.py": HELPER + "configure(c)\nc.FixedQuota.defualt = 1\n",
    "plain.py": HELPER + "configure(c, admins={'root'})\n",
    "set.py": HELPER
    + "c.JupyterHub.services.append({'name': 'mine', 'api_token': 'x' * 32})\n"
    + "c.JupyterHub.load_roles = [{'name': 'user', 'scopes': ['self', 'read:hub']}]\n"
    + "c.JupyterHub.template_paths = ['/etc/pages']\n"
    + "c.JupyterHub.custom_scopes = {'custom:mine': {'description': 'x'}}\n"
    + "c.JupyterHub.base_url = '/lab'\n"
    + "c.Spawner.server_token_scopes = ['users:activity!user', 'read:hub']\n"
    + "configure(c, service_port=8765)\n",
}
ON_ONE_MACHINE = ("jupyterhub_config_local.py", "jupyterhub_config_system.py")
SHIPPED = (*ON_ONE_MACHINE, "jupyterhub_config_kubernetes.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Return what came of each file, by its name."""
    folder = tmp_path_factory.mktemp("configs")
    texts = {name: (ROOT / "hub_config" / name).read_text() for name in SHIPPED}
    texts = {name: text.replace("/var/lib/jupyter-gq", str(folder / "state")) for name, text in texts.items()}
    for name, text in {**FILES, **texts}.items():
        (folder / name).write_text(text)
    names = [*FILES, *SHIPPED]
    script = str(Path(__file__).with_name("load_config.py"))
    done = run([script, *(str(folder / name) for name in names)], folder, JUPYTERHUB_SERVICE_NAME="jupyter-gq")
    return dict(zip(names, map(json.loads, done.splitlines()), strict=True))


def run(arguments, folder, **environment):
    done = subprocess.run(
        [PYTHON, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=scaled(PATIENCE),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_files_hold_values_of_traits_that_exist(name, told):
    assert len((ROOT / "hub_config" / name).read_text().splitlines()) <= 60
    assert told[name]["unknown"] == []
    assert {"FixedQuota", "TrainingQueues", "IdlePolicy"} <= set(told[name]["classes"])


@pytest.mark.parametrize("name", ON_ONE_MACHINE)
def test_the_files_for_one_machine_listen_there_only(name, told):
    assert told[name]["bind_url"].startswith("http://127.0.0.1:")
    assert "SimulatedDevices" in told[name]["classes"]


def test_the_demo_has_the_administrator_that_its_pages_name(told):
    assert told["jupyterhub_config_local.py"]["admins"] == ["dana"]
    assert "log in as **dana**" in (ROOT / "README.md").read_text()


def test_zero_to_jupyterhub_keeps_its_service_and_its_token(told):
    """The file is executed in the middle of another one, and what the chart has made is not made again."""
    hub = told["zero-to-jupyterhub.py"]
    entry = {
        "name": "jupyter-gq",
        "url": "http://gq-service:8089",
        "api_token": "made-by-the-chart",
        "oauth_no_confirm": False,
        "oauth_client_allowed_scopes": ["custom:gq:submit", "custom:gq:admin"],
    }
    assert hub["services"] == [entry]
    assert {"mine", "jupyter-gq"} <= {role["name"] for role in hub["roles"]}
    assert (hub["spawner"], hub["last_activity_interval"]) == ("jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner", 0)
    assert hub["service_url"] == "http://gq-service.hub.svc:8089/services/jupyter-gq/"
    assert hub["server_service_url"] == "", "servers dial the address that the Hub dials"
    assert set(USER_SCOPES) <= set(hub["server_token_scopes"])
    assert (hub["unknown"], hub["backend"]) == ([], "kubernetes")


def test_the_service_reads_the_same_file_in_its_own_pod(told):
    alone = told["jupyterhub_config_kubernetes.py"]
    assert alone["services"] == []
    assert {"FixedQuota", "TrainingQueues", "Pools"} <= set(alone["classes"])
    assert alone["backend"] == "kubernetes"


def test_another_hub_gives_address_and_token_itself(told):
    hub = told["plain-hub.py"]
    assert [(each["url"], each["api_token"]) for each in hub["services"]] == [("http://gq:8089", "of-the-test")]
    assert hub["service_url"] == "http://gq:8089/services/jupyter-gq/"
    assert hub["admins"] == ["root"]


def test_a_hub_that_does_not_know_the_service_does_not_start(monkeypatch):
    configure_kubernetes(Config())  # the service reads the file, or somebody looks at it
    monkeypatch.setitem(sys.modules, "jupyterhub.app", ModuleType("jupyterhub.app"))
    with pytest.raises(ValueError, match=r"add hub\.services\.jupyter-gq"):
        configure_kubernetes(Config())
    with pytest.raises(ValueError, match="both service_url and service_token"):
        configure_kubernetes(Config(), service_url="http://gq:8089")


def test_a_misspelt_trait_would_be_seen(told):
    assert told["misspelt.py"]["unknown"] == ["FixedQuota.defualt"]


def test_users_and_their_servers_get_the_scopes_in_this_version_of_the_hub(told):
    plain = told["plain.py"]
    roles = {role["name"]: role for role in plain["roles"]}
    if plain["version"] >= 6:
        assert plain["extra_user_scopes"] == sorted(USER_SCOPES)
        assert "user" not in roles
    else:
        assert roles["user"]["scopes"] == ["self", *USER_SCOPES]
    assert set(USER_SCOPES) <= set(plain["server_token_scopes"])
    assert roles["jupyter-gq-admin"]["users"] == plain["admins"] == ["root"]
    assert set(plain["scopes"]) == {f"custom:gq:{scope}" for scope in ("read", "change", "delete", "submit", "admin")}


def test_what_the_administrator_has_set_is_kept(told):
    kept = told["set.py"]
    roles = {role["name"]: role for role in kept["roles"]}
    assert [service["name"] for service in kept["services"]] == ["mine", "jupyter-gq"]
    assert roles["user"]["scopes"] == ["self", "read:hub", *USER_SCOPES]
    assert kept["template_paths"][0] == "/etc/pages"
    assert "custom:mine" in kept["scopes"]
    (entry,) = [service for service in kept["services"] if service["name"] == "jupyter-gq"]
    assert entry["url"] == "http://127.0.0.1:8765"
    socket_path = entry["environment"]["JUPYTER_GQ_SERVICE_SOCKET"]
    assert kept["service_url"] == f"http+unix://{os.geteuid()}@{quote(socket_path, safe='')}/lab/services/jupyter-gq/"
    assert kept["server_token_scopes"] == ["users:activity!user", "read:hub", *USER_SCOPES]
    assert kept["last_activity_interval"] == 0


def test_the_service_reads_the_file_that_the_hub_was_started_with(tmp_path):
    (tmp_path / "inner.py").write_text(HELPER + "configure(c)\n")
    (tmp_path / "outer.py").write_text(f"load_subconfig({str(tmp_path / 'inner.py')!r})\n")
    code = "from traitlets.config.loader import PyFileConfigLoader as L\nimport sys\n"
    code += "print(L(sys.argv[1], '.').load_config().JupyterHub.services[0]['command'][-1])"
    assert run(["-c", code, "inner.py"], tmp_path).strip() == str(tmp_path / "inner.py")
    assert run(["-c", code, "outer.py", "--config", "outer.py"], tmp_path).strip() == str(tmp_path / "outer.py")


@pytest.fixture
def new_hub(monkeypatch):
    """Make this process a Hub that has read no file yet; call the result to make it a new one."""
    monkeypatch.setitem(sys.modules, "jupyterhub.app", ModuleType("jupyterhub.app"))

    def end():
        while hub_config._held_ports:
            hub_config._held_ports.popitem()[1].close()

    end()
    yield end
    end()


def test_reading_the_file_from_elsewhere_leaves_no_traces(tmp_path):
    port_of(tmp_path / "looked-at")
    assert not (tmp_path / "looked-at").exists()
    assert not hub_config._held_ports


def test_the_port_of_the_service_is_the_same_at_the_next_start(tmp_path, monkeypatch, new_hub):
    first = port_of(tmp_path)
    assert 20_000 <= first < 32_000
    assert port_of(tmp_path) == first, "the Hub reads its file again"
    new_hub()
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        with pytest.raises(TraitError, match=f"port {first} .* is in use by another program"):
            port_of(tmp_path)
        with pytest.raises(TraitError, match=rf"port {first} .*configure\(c, service_port=\.\.\.\)"):
            configure(Config(), state_dir=str(tmp_path), service_port=first)
    assert port_of(tmp_path) == first
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "jupyter-gq")
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:4711")
    assert port_of(tmp_path) == 4711, "the service itself looked for another port"


def test_the_setting_of_the_port_is_taken_and_nothing_is_recorded(tmp_path, new_hub):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        wanted = free.getsockname()[1]
    c = Config()
    c.JupyterGQ.port = wanted
    configure(c, state_dir=str(tmp_path))
    (service,) = c.JupyterHub.services
    assert service["url"] == f"http://127.0.0.1:{wanted}"
    assert not (tmp_path / "port").exists()


@pytest.mark.parametrize("wrong", ["8000", 0.5, True, -1, 65536])
def test_a_setting_that_is_no_port_is_refused_with_its_name(tmp_path, wrong):
    c = Config()
    c.JupyterGQ.port = wrong
    with pytest.raises(TraitError, match=r"^c\.JupyterGQ\.port = .* is no port"):
        configure(c, state_dir=str(tmp_path))


def test_a_service_that_still_runs_keeps_a_second_hub_from_starting(tmp_path, new_hub):
    """It shares the port with other programs of its account, so binding alone does not show it."""
    port = port_of(tmp_path)
    (listening,) = bind_sockets(port, "127.0.0.1", reuse_port=True)
    with listening, pytest.raises(TraitError, match=f"port {port} .* is in use by another program"):
        port_of(tmp_path)
    new_hub()
    assert port_of(tmp_path) == port


#: Tries each way in which a program can take a port, as another account, and prints those that succeed.
TAKES_A_PORT = """
import itertools, os, socket, sys
if os.geteuid() == 0 and sys.argv[2] == "another":
    os.setgroups([])
    os.setuid(65534)
for host, share, reuse in itertools.product(("127.0.0.1", "0.0.0.0", "::"), (0, 1), (0, 1)):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taking:
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, share)
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            taking.bind((host, int(sys.argv[1])))
            taking.listen()
            print(host, share, reuse)
        except OSError:
            pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_the_hub_and_its_proxy_hold_the_port_against_other_accounts(tmp_path, new_hub):
    def takes_port():
        return run(["-c", TAKES_A_PORT, str(port), "another"], tmp_path)

    c = Config()
    configure(c, state_dir=str(tmp_path), proxy="python")
    port = int(c.JupyterHub.services[0]["url"].rpartition(":")[2])
    assert takes_port() == ""
    command = c.ConfigurableHTTPProxy.command
    holder = [*command[: command.index("env")], "sh", "-c", "echo started; read line"]
    with subprocess.Popen(
        holder, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=-1, stdout=-1, text=True
    ) as proxy:
        assert proxy.stdout.readline() == "started\n"
        new_hub()  # the Hub is gone, and its proxy is not
        assert takes_port() == ""
        assert port_of(tmp_path) == port, "the next Hub shares the port with that proxy"
        new_hub()
        proxy.stdin.write("end\n")
    assert takes_port() != "", "the test tries nothing that would succeed"


def test_the_proxy_does_not_start_beside_a_stranger():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = subprocess.run(
            [PYTHON, "-m", "jupyter_gq.hub.hold_port", str(port), "echo"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=scaled(PATIENCE),
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"The port {port} of the scheduler service is in use by another program" in done.stderr


def test_a_folder_whose_socket_would_have_too_long_a_path_is_refused_with_the_setting(tmp_path):
    with pytest.raises(TraitError, match=r"c\.SchedulerService\.socket_dir"):
        configure(Config(), state_dir=str(tmp_path / (120 * "x")))
    c = Config()
    c.SchedulerService.socket_dir = "/run/gq"
    configure(c, state_dir=str(tmp_path / (120 * "x")))
    assert "%2Frun%2Fgq%2Fgq.sock" in c.GPUShareMixin.service_url


@pytest.mark.parametrize("content", ["", "80 80", "0", "65536", "-1", "\u0663", "9" * 5000])
def test_damaged_record_of_the_port_moves_nothing(tmp_path, new_hub, content):
    (tmp_path / "port").write_text(content)
    with pytest.raises(TraitError, match="should hold the port of the scheduler service"):
        port_of(tmp_path)
    assert (tmp_path / "port").read_text() == content


def port_of(folder):
    c = Config()
    configure(c, state_dir=str(folder))
    return int(c.JupyterHub.services[0]["url"].rpartition(":")[2])


@pytest.fixture
def command(tmp_path):
    """Make a command in a folder of the test's own."""

    def make(folder, name, interpreter):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / name
        path.write_text(f"#!/usr/bin/env {interpreter}\n")
        path.chmod(0o755)

    return make


def test_the_proxy_is_nodes_only_where_both_are_there_for_good(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert build_proxy_command()[-2:] == ["--proxy-timeout", "3600000"]
    with pytest.raises(ValueError, match="npm install"):
        build_proxy_command("node")
    command("bin", "configurable-http-proxy", "python3")
    command("bin", "node", "sh")
    assert "--proxy-timeout" in build_proxy_command(), "somebody's Python proxy was taken for Node's"
    command("bin", "configurable-http-proxy", "node")
    assert build_proxy_command() == [str(tmp_path / "bin" / "configurable-http-proxy")]
    assert "--proxy-timeout" in build_proxy_command("python")
    (tmp_path / "bin" / "node").unlink()
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    command("venv/bin", "node", "sh")
    monkeypatch.setenv("PATH", f"{tmp_path / 'venv' / 'bin'}:{tmp_path / 'bin'}")
    assert "--proxy-timeout" in build_proxy_command(), "a Node that is only there for the build was taken"


@pytest.fixture
def hub():
    """A Hub that has read no file yet."""
    from jupyterhub.app import JupyterHub

    JupyterHub.clear_instance()
    yield JupyterHub.instance()
    JupyterHub.clear_instance()


def test_the_log_of_the_hub_names_the_proxy(hub, command, tmp_path, monkeypatch, caplog):
    hub.log = logging.getLogger("hub")
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    configure(Config(), state_dir=str(tmp_path / "state"))
    assert caplog.messages == ["The Hub's proxy is the pure-Python one"]
    command("bin", "configurable-http-proxy", "node")
    command("bin", "node", "sh")
    configure(Config(), state_dir=str(tmp_path / "state"))
    assert caplog.messages[1:] == [f"The Hub's proxy is {tmp_path}/bin/configurable-http-proxy"]


#: With the service's address and token; the setting comes after the call.
_CALLED_FIRST = KUBERNETES + "configure_kubernetes(c, service_url='http://gq:8089/', service_token='of-the-test')\n"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("c.KubeSpawner.enable_user_namespaces = True", "enable_user_namespaces is True"),
        ("c.GQKubeSpawner.enable_user_namespaces = True", "enable_user_namespaces is True"),
        ("c.KubeSpawner.namespace = 'users'; c.KubernetesBackend.hub_namespace = 'hub'", "namespace is users"),
        ("c.KubeSpawner.extra_pod_config.update({'resourceClaims': [{'name': 'x'}]})", "sets resourceClaims"),
        ("c.KubeSpawner.profile_list = [{'kubespawner_override': {'namespace': 'users'}}]", "of a profile: namespace"),
    ],
)
def test_a_hub_whose_settings_would_hide_used_gpus_does_not_start(hub, tmp_path, caplog, setting, words, monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "hub")
    hub.log = logging.getLogger("hub")
    (tmp_path / "jupyterhub_config.py").write_text(f"{_CALLED_FIRST}{setting}\n")
    hub.load_config_file("jupyterhub_config", str(tmp_path))
    with pytest.raises(SystemExit):
        hub.session_factory = "made when all is read"
    assert words in caplog.text


def test_a_hub_whose_servers_the_service_sees_starts(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("POD_NAMESPACE", "hub")
    settings = "c.KubeSpawner.namespace = 'hub'\nc.KubeSpawner.extra_pod_config.update({'runtimeClassName': 'kata'})\n"
    (tmp_path / "jupyterhub_config.py").write_text(_CALLED_FIRST + settings)
    hub.load_config_file("jupyterhub_config", str(tmp_path))
    hub.session_factory = "made when all is read"
    assert hub.spawner_class.__name__ == "GQKubeSpawner"


def test_the_real_hub_ends_and_says_which_setting_it_is(tmp_path):
    (tmp_path / "hub.py").write_text(_CALLED_FIRST + "c.KubeSpawner.enable_user_namespaces = True\n")
    done = subprocess.run(
        [sys.executable, "-m", "jupyterhub", "-f", "hub.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=scaled(120),
    )
    assert done.returncode == 1
    assert "The Hub does not start. c.KubeSpawner.enable_user_namespaces is True" in done.stderr
    assert "Traceback" not in done.stderr

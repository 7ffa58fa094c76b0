"""The shipped configuration with the real scheduler service: two devices simulated, servers that are tiny but real."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from jupyter_gq.client.connection.http import ServiceClient, ServiceUnavailable
from jupyter_gq.client.connection.service_address import ServiceAddress
from jupyter_gq.client.models import ActivityReport
from tests.api.crowd import a_crowd
from tests.docs.blocks import blocks
from tests.hub.real_hub import ADMIN_TOKEN, PATIENCE, ROOT, Person, RealHub, eventually
from tests.patience import scaled
from tests.ports import claim_port

pytestmark = pytest.mark.asyncio

CONFIG = """
import sys
c = get_config()
load_subconfig({base!r})
c.JupyterHub.spawner_class = "jupyter_gq.hub.local.GQLocalSpawner"  # also where the package is not installed
c.JupyterHub.services.append({{"name": "test", "api_token": {token!r}}})
c.JupyterHub.services.append({{"name": "prometheus", "api_token": "token-of-prometheus"}})
c.JupyterHub.services.append({{"name": "other", "api_token": "token-of-another"}})
c.JupyterHub.load_roles.append({role!r})
c.JupyterHub.load_roles.append({{"name": "test", "services": ["test"], "scopes": [
    "admin:users", "admin:servers", "servers", "access:servers", "read:servers", "tokens"]}})
c.Spawner.cmd = [sys.executable, {tiny!r}]
c.Spawner.poll_interval = 1
c.SimulatedDevices.mode = "always"
c.IdlePolicy.after, c.IdlePolicy.warning, c.IdlePolicy.grace = 6, 4, 0
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": {slow}}}
"""


#: What the page says to add to Zero to JupyterHub.
WATCHING = ROOT / "docs/how-to/watch-with-prometheus.md"
PROMETHEUS = yaml.safe_load(re.search(r"```yaml\n(.*?)```", WATCHING.read_text(), re.DOTALL)[1])


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    base = str(ROOT / "hub_config" / "jupyterhub_config_local.py")
    tiny = str(Path(__file__).with_name("tiny_server.py"))
    role = {"name": "prometheus", **PROMETHEUS["hub"]["loadRoles"]["prometheus"]}
    hub = RealHub(
        tmp_path_factory.mktemp("hub"),
        config=CONFIG.format(base=base, token=ADMIN_TOKEN, tiny=tiny, role=role, slow=round(scaled(5))),
    )
    hub.arguments = [
        f"--JupyterHub.bind_url={hub.url}",
        f"--JupyterHub.hub_port={hub.hub_port}",
        f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{claim_port()}",
    ]
    try:
        hub.start()
        yield hub
    finally:
        hub.end()


async def me(person):
    """Return the service's answer to the user, with the user's own token through the proxy."""
    if not hasattr(person, "token"):
        scopes = ["access:services!service=jupyter-gq", "custom:gq:submit"]
        answer = await person.rest.post(f"/users/{person.name}/tokens", json={"scopes": scopes})
        person.token = answer.json()["token"]
    url = f"{person.hub.url}/services/jupyter-gq/api/v1/me"
    answer = await person.browser.get(url, headers={"Authorization": f"token {person.token}"})
    return answer.json() if answer.is_success else None


async def left(person, amount):
    said = await me(person)
    return said is not None and said["left"] == amount


async def test_a_service_of_the_hub_with_the_role_of_the_page_reads_the_metrics_and_nothing_else(hub):
    async def status(path, token):
        headers = {"Authorization": f"token {token}"}
        async with httpx.AsyncClient(timeout=scaled(PATIENCE)) as client:
            answer = await client.get(f"{hub.url}/services/jupyter-gq/api/v1/{path}", headers=headers)
        return answer.status_code, answer.text

    async def is_up():
        return (await status("ready", "none"))[0] == 200

    await eventually(is_up)
    code, text = await status("metrics", "token-of-prometheus")
    assert code == 200, text
    assert "jupyter_gq_service_leads 1\n" in text
    assert (await status("metrics", "token-of-another"))[0] == 403
    assert (await status("state", "token-of-prometheus"))[0] == 403


async def test_the_beginning_of_the_story(hub):
    async with Person(hub, "ann") as ann, Person(hub, "bob") as bob, Person(hub, "carol") as carol:
        await eventually(lambda: left(ann, "0.5"))
        assert await left(bob, "0.25")

        assert (await ann.spawn({"gpus": "0.5"})).status_code in (201, 202)
        assert (await bob.spawn({"gpus": "0.25"})).status_code in (201, 202)
        await eventually(ann.ready)
        await eventually(bob.ready)
        await ann.log_in()
        await bob.log_in()
        anns, bobs = (await ann.told())["environment"], (await bob.told())["environment"]
        assert anns["CUDA_VISIBLE_DEVICES"] == bobs["CUDA_VISIBLE_DEVICES"] != ""
        assert (anns["JUPYTER_GQ_GPUS"], bobs["JUPYTER_GQ_GPUS"]) == ("0.5", "0.25")
        await eventually(lambda: left(ann, "0"))

        refused = await bob.spawn({"gpus": "0.25"}, "second")
        assert refused.status_code == 403
        assert "0.25" in refused.json()["message"]

        page = (await carol_page(carol)).text
        assert "0.25 of 1 GPU free" in page
        assert (await carol.spawn({"gpus": "0.5"})).status_code == 202
        await carol.log_in()
        await eventually(lambda: waits(carol))

        # A server that is killed: its share is free when the process is gone, and who waited for it starts.
        os.kill((await bob.told())["pid"], signal.SIGKILL)
        await eventually(lambda: left(bob, "0.25"))
        await eventually(carol.ready)
        assert (await carol.told())["environment"]["JUPYTER_GQ_GPUS"] == "0.5"
        await ann.stop()

        # Without a GPU nothing is counted, and nothing visible.
        await bob.start({"gpus": "0"})
        await eventually(bob.ready)
        assert (await bob.told())["environment"]["CUDA_VISIBLE_DEVICES"] == ""
        assert await left(bob, "0.25")
        await all_gone(bob, carol)


async def all_gone(*people):
    """Stop the servers of these people and wait until all shares are given back, for the next test."""
    for person in people:
        await person.stop()
    for person in people:
        await eventually(person.gone)
        await eventually(lambda person=person: has_all(person))


async def has_all(person):
    said = await me(person)
    return said is not None and said["left"] == said["quota"]


async def carol_page(carol):
    await carol.log_in()
    return await carol.browser.get("/hub/spawn/carol")


async def waits(person):
    page = await person.browser.get(f"/hub/spawn-pending/{person.name}")
    return '"step": "waiting"' in page.text


async def test_an_idle_notebook_gives_way_and_its_owner_reads_why(hub):
    """The server reports an idle kernel, as the server extension does; only carol, who waits, makes it end."""
    async with Person(hub, "ann") as ann, Person(hub, "bob") as bob, Person(hub, "carol") as carol:
        await eventually(lambda: left(ann, "0.5"))
        for person, gpus in ((ann, "0.5"), (bob, "0.25")):
            await person.start({"gpus": gpus})
            await eventually(person.ready)
            await person.log_in()
        environment = (await ann.told())["environment"]
        token, address = environment["JUPYTERHUB_API_TOKEN"], environment["JUPYTER_GQ_URL"]
        kernel = {"id": "k", "name": "python3", "busy": False, "last_active": now()}

        async def report():
            body = {"at": now(), "kernels": [kernel]}
            client = ServiceClient(address, token, timeout=scaled(PATIENCE))
            with contextlib.closing(client):
                await client.report_activity("", ActivityReport.model_validate(body))

        for _ in range(16):  # idle for longer than the limit, but nobody waits
            await report()
            await asyncio.sleep(0.5)
        assert await ann.ready()

        await carol.start({"gpus": "0.5"})
        async with asyncio.timeout(scaled(PATIENCE)):
            while await ann.ready():
                await report()
                await asyncio.sleep(0.5)
        await eventually(carol.ready)
        page = (await ann.browser.get("/hub/spawn/ann")).text
        assert "Your GPU share was taken back" in page
        assert "carol" in page
        assert re.search(r'value="0"[^>]*checked', page)
        await all_gone(bob, carol)


def service_pid(hub):
    """The scheduler: the child of its leash."""
    leash = next(each for each in psutil.Process(hub.pid).children() if "keep_running.py" in " ".join(each.cmdline()))
    return leash.children()[0].pid


async def test_a_hub_and_a_service_that_are_killed_find_the_servers_and_their_shares_again(hub):
    async with Person(hub, "ann") as ann:
        await eventually(lambda: left(ann, "0.5"))
        await ann.start({"gpus": "0.25"})
        await eventually(ann.ready)
        await eventually(lambda: left(ann, "0.25"))

        scheduler = psutil.Process(service_pid(hub))
        scheduler.kill()
        await eventually(lambda: not scheduler.is_running())
        await eventually(lambda: left(ann, "0.25"))

        second = psutil.Process(service_pid(hub))
        hub.kill()
        await eventually(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE)
        await asyncio.to_thread(hub.start)
        await eventually(ann.ready)
        await eventually(lambda: left(ann, "0.25"))
        await ann.stop()
        await eventually(ann.gone)
        await eventually(lambda: left(ann, "0.5"))


#: As another account, listens wherever the service could be expected, and prints the places and all that it is sent.
SQUATTER = """
import itertools, os, socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([])
os.setuid(65534)
places = [(socket.AF_INET, (host, port)) for host in ("127.0.0.1", "")] + [(socket.AF_UNIX, path)]
for (family, address), share, reuse in itertools.product(places, (0, 1), (0, 1)):
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, share and family == socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            listening.bind(address)
            listening.listen()
        except OSError:
            continue
        print("listens at", address, flush=True)
        print("was sent", listening.accept()[0].recv(4096), flush=True)
print("found no place", flush=True)
"""


@contextlib.asynccontextmanager
async def service_down(hub):
    """The service is dead in the block, and nothing starts it again; yields its port."""
    scheduler = psutil.Process(service_pid(hub))
    listening = (each for each in scheduler.net_connections("tcp") if each.status == psutil.CONN_LISTEN)
    port, leash = next(listening).laddr.port, scheduler.parent()
    leash.suspend()
    scheduler.kill()
    await eventually(lambda: scheduler.status() == psutil.STATUS_ZOMBIE)
    try:
        yield port
    finally:
        leash.resume()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_while_the_service_is_down_another_account_is_sent_nothing(hub):
    """Neither the tokens of servers, which use the socket, nor what browsers send through the proxy."""
    async with Person(hub, "ann") as ann:
        await eventually(lambda: left(ann, "0.5"))
        await ann.start({"gpus": "0"})
        await eventually(ann.ready)
        await ann.log_in()
        environment = (await ann.told())["environment"]
        place = ServiceAddress.parse(environment["JUPYTER_GQ_URL"]).socket
        assert place.account == os.geteuid()
        client = ServiceClient(
            environment["JUPYTER_GQ_URL"], environment["JUPYTERHUB_API_TOKEN"], timeout=scaled(PATIENCE)
        )
        assert (await client.me()).user == "ann"

        async with service_down(hub) as port:
            arguments = ["-c", SQUATTER, str(port), str(place.path)]
            squatter = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=subprocess.PIPE)
            first = await squatter.stdout.readline()
            with pytest.raises(ServiceUnavailable):
                await client.me()
            assert await me(ann) is None, "through the proxy"
            assert first == b"found no place\n", (first, await squatter.stdout.readline())
            await squatter.wait()
        await eventually(lambda: answers(client))
        client.close()
        await all_gone(ann)


async def answers(client):
    with contextlib.suppress(ServiceUnavailable):
        return await client.me()


def now():
    return datetime.now(tz=UTC).timestamp()  # noqa: TID251 - the test plays a notebook server, which has a clock


async def test_storms_of_connections_through_the_proxy_leave_other_users_served(hub):
    async with Person(hub, "ann") as ann, Person(hub, "bob") as bob, a_crowd() as crowd:
        await eventually(lambda: me(ann))
        await eventually(lambda: me(bob))
        for client in await crowd.connect_many(hub.url, 1_100):
            client.send(b"GET /services/jupyter-gq/api/v1/me HTTP/1.1\r\nHost")
        assert (await asyncio.wait_for(me(bob), scaled(20)))["user"] == "bob"
        statuses = []
        for _ in range(10):
            for client in (streams := await crowd.connect_many(hub.url, 100)):
                client.ask("api/v1/events", ann.token)
            statuses += [await client.status() for client in streams]
        assert (statuses.count(200), statuses.count(429)) == (64, 936)
        stream = await crowd.connect(hub.url)
        stream.ask("api/v1/events", bob.token)
        assert await stream.status() == 200
        assert (await asyncio.wait_for(me(bob), scaled(20)))["user"] == "bob"


def a_terminal(folder):
    """Return a function that runs `jupyter-gq` in the folder; it returns the exit code and both outputs."""

    def say(*arguments, stdin="", **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        done = subprocess.run(
            [sys.executable, "-m", "jupyter_gq.app", *arguments],
            cwd=folder,
            env={**kept, "PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(folder / "config"), **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=scaled(PATIENCE),
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return say


async def test_the_command_line_sends_a_script_follows_it_and_ends_with_its_success(hub, tmp_path):
    """With a token of the Hub's token page after a login, and in a server with the token that the Hub gives it."""
    say = a_terminal(tmp_path)
    (tmp_path / "good.py").write_text(
        "import sys, jupyter_gq\nprint('hello', sys.argv[1])\n"
        "_ = (jupyter_gq.results_dir() / 'said.txt').write_text(sys.argv[1])\n"
    )
    (tmp_path / "waits.py").write_text(
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"
        "import net\nprint(net.VALUE, os.path.exists(__file__))\n"
    )
    (tmp_path / "net.py").write_text("VALUE = 1\n")
    (tmp_path / "bad.py").write_text("print('so far')\nraise ValueError('no more')\n")
    async with Person(hub, "ann") as ann:
        await eventually(lambda: left(ann, "0.5"))
        code, out, err = await asyncio.to_thread(say, "login", hub.url, stdin=f"{ann.token}\n")
        assert (code, out.startswith("You are ann at ")) == (0, True), err
        send = ["submit", "--gpus", "0.5", "--follow"]
        code, out, err = await asyncio.to_thread(say, *send, "good.py", "--", "world")
        assert (code, out) == (0, "hello world\n"), err
        assert await asyncio.to_thread(say, "logs", "last") == (0, "hello world\n", "")
        assert await asyncio.to_thread(say, "results", "last") == (0, "said.txt\n", "")
        assert (tmp_path / "said.txt").read_text() == "world"
        code, out, err = await asyncio.to_thread(say, *send, "bad.py")
        assert (code, out.startswith("so far\n"), "ValueError: no more" in out) == (1, True, True), err

        send, go = ["submit", "--gpus", "0", "-o", "json", "waits.py"], tmp_path / "go"
        sent = [await asyncio.to_thread(say, *send, *live, "--", str(go)) for live in ([], ["--live"])]
        (tmp_path / "net.py").write_text("VALUE = 2\n")
        go.touch()
        for (code, out, err), value in zip(sent, (1, 2), strict=True):
            assert code == 0, err
            code, out, _ = await asyncio.to_thread(say, "logs", "-f", json.loads(out)["id"])
            assert (code, out) == (0, f"{value} True\n"), "frozen at sending, unless in the live folder"

        await ann.start({"gpus": "0"})
        await eventually(ann.ready)
        await ann.log_in()
        given = (await ann.told())["environment"]
        server = {name: given[name] for name in ("JUPYTER_GQ_URL", "JUPYTERHUB_API_TOKEN")}
        (tmp_path / "config" / "jupyter_gq_login.json").unlink()
        code, out, err = await asyncio.to_thread(
            say, "submit", "--gpus", "0", "good.py", "--wait", "--", "you", **server
        )
        assert code == 0, err
        assert await asyncio.to_thread(say, "logs", "last", **server) == (0, "hello you\n", "")
        await all_gone(ann)


#: Cells of a notebook: they run in order, and all but the one with the tag.
NOTEBOOK = (
    ("code", "import pathlib\nsteps = int(pathlib.Path('steps.txt').read_text())\nprint('begins')", []),
    ("markdown", "# No code", []),
    ("code", "raise RuntimeError('a cell with the tag has run')", ["gq-skip"]),
    ("code", "print('steps', steps * 2)\nsteps * 3", []),
)


async def test_the_command_line_sends_a_notebook_and_the_examples_of_the_page_work(hub, tmp_path):
    """The page docs/how-to/use-the-command-line.md has the commands; their files are made here."""
    say, page = a_terminal(tmp_path), "use-the-command-line.md"
    (example,) = (block for block in blocks() if block.page.name == page and "test_real_service" in block.told)
    lines = [line.split() for line in example.text.splitlines() if line.startswith("$ ")]
    assert [line[:4] for line in lines] == [["$", "jupyter-gq", "submit", f"train.{kind}"] for kind in ("ipynb", "py")]
    write_cells(tmp_path / "train.ipynb", *NOTEBOOK)
    write_cells(tmp_path / "wrong.ipynb", NOTEBOOK[0], ("code", "print(steps)\nsteps / 0", []), NOTEBOOK[3])
    (tmp_path / "train.py").write_text("import sys, net\nprint(net.VALUE, *sys.argv)\n")
    (tmp_path / "net.py").write_text("VALUE = 1\n")
    (tmp_path / "steps.txt").write_text("21")
    async with Person(hub, "ann") as ann:
        await eventually(lambda: left(ann, "0.5"))
        code, _, err = await asyncio.to_thread(say, "login", hub.url, stdin=f"{ann.token}\n")
        assert code == 0, err
        notebook, script = (line[2:] for line in lines)
        code, out, err = await asyncio.to_thread(say, *notebook)
        assert code == 0, err
        assert re.search(r"^train \(job-\w+\) was sent to \w+\.$", out + err, re.MULTILINE), (out, err)
        told = "begins\nsteps 42\n63\n"
        code, out, err = await asyncio.to_thread(say, "logs", "-f", "last")
        assert (code, out) == (0, told), err
        code, out, err = await asyncio.to_thread(say, *notebook, "--follow")
        assert (code, out) == (0, told), err
        code, out, err = await asyncio.to_thread(say, "submit", "wrong.ipynb", "--gpus", "0", "--follow")
        assert (code, out.startswith("begins\n21\n")) == (1, True), (out, err)
        assert "ZeroDivisionError" in out, (out, err)
        assert "steps 42" not in out, "no cell runs behind the one that failed"
        code, out, err = await asyncio.to_thread(say, *script)
        assert (code, out.startswith("1 "), out.endswith("train.py --epochs 40\n")) == (0, True, True), (out, err)
        assert "2 files (" in err, err


def write_cells(file, *cells):
    """Write a notebook with a cell for each kind, source and list of tags."""
    code = {"outputs": [], "execution_count": None}
    document = {
        "cells": [
            {"cell_type": kind, "id": f"c{at}", "source": source, "metadata": {"tags": tags}}
            | (code if kind == "code" else {})
            for at, (kind, source, tags) in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    file.write_text(json.dumps(document))

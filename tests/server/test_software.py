"""A job is sent with another kernel of the server, or with an image that the service offers."""

import json
import sys

import pytest

from tests.server.service import ME
from tests.server.test_kernel_jobs import run
from tests.server.test_kernels import kernel as kernel  # a fixture
from tests.server.test_send import a_notebook, a_request, code
from tests.server.test_send_sweep import a_sweep
from tests.server.test_variables import asks_for, reasons, run_all

IMAGES = ["PyTorch 2.9", "JAX"]
COMMAND = ["-m", "ipykernel_launcher", "-f", "{connection_file}"]


@pytest.fixture(autouse=True)
def _offers(service, jp_kernel_dir, tmp_path):
    """The service offers images; beside python3 the server has two kernels of Python and one of R."""
    service.answers["GET", "me"] = (200, {**ME, "images": IMAGES})
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 4, 0, 'final', 0)\n")
    for name, language, env in (
        ("py-other", "python", {"MODE": "other"}),
        ("py-old", "python", {"PYTHONPATH": str(tmp_path)}),
        ("ir", "R", {}),
    ):
        (jp_kernel_dir / name).mkdir()
        spec = {"argv": [sys.executable, *COMMAND], "display_name": f"The {name}", "language": language, "env": env}
        (jp_kernel_dir / name / "kernel.json").write_text(json.dumps(spec))


def sent_jobs(service):
    return [body for body in service.bodies if body and "bundle" in body]


async def send(fetch, service, **fields):
    """Send a job; return what the service got."""
    status, answer = await fetch("POST", "send", body=a_request(**fields))
    assert status == 201, answer
    return sent_jobs(service)[-1]


async def test_the_plan_names_the_other_kernels_of_the_same_language(on_hub, service, fetch):
    _, plan = await fetch("POST", "check", body=a_request())
    kernels = {each["name"]: each["title"] for each in plan["kernels"]}
    assert kernels["py-other"] == "The py-other"
    assert not {"python3", "ir"} & set(kernels)
    assert plan["takes_images"]
    _, plan = await fetch("POST", "check", body=a_request(notebook=a_notebook(code("train", "1"), kernel="ir")))
    assert (plan["kernels"], plan["takes_images"]) == ([], False)


async def test_a_job_is_sent_with_the_kernel_that_was_chosen(on_hub, service, fetch):
    sent = await send(fetch, service, software="py-other")
    kernel = sent["bundle"]["manifest"]["kernel"]
    assert (sent["software"], kernel["name"], kernel["display_name"]) == ("py-other", "py-other", "The py-other")
    assert (kernel["argv"], kernel["env_names"]) == ([sys.executable, *COMMAND], ["MODE"])
    assert ("GET", "me") not in service.asked, "the service need not be asked for its images"
    sent = await send(fetch, service, software="python3", key="k2")
    assert (sent["software"], sent["bundle"]["manifest"]["kernel"]["name"]) == ("", "python3"), "it is the notebook's"


async def test_in_an_image_its_own_python_starts_the_kernel(on_hub, service, fetch, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/here/lib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    sent = await send(fetch, service, software="JAX")
    manifest = sent["bundle"]["manifest"]
    assert sent["software"] == "JAX"
    assert manifest["kernel"]["argv"] == ["python3", *COMMAND]
    assert (manifest["kernel"]["env_names"], manifest["kernel"]["resource_dir"]) == ([], "")
    assert not {"PATH", "LD_LIBRARY_PATH"} & set(manifest["environment"])
    assert manifest["environment"]["MPLBACKEND"] == "agg"


async def test_all_jobs_of_a_sweep_have_the_software(on_hub, service, fetch):
    status, _ = await fetch("POST", "sweep", body=a_sweep(software="JAX"))
    assert (status, [body["software"] for body in sent_jobs(service)]) == (201, ["JAX", "JAX"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"software": "cobol"}, "There is no software 'cobol' here. Offered are: "),
        ({"software": "ir"}, "There is no software 'ir' here."),
        ({"software": "JAX", "notebook": a_notebook(code("train", "1"), kernel="ir")}, "in Python only"),
    ],
)
@pytest.mark.parametrize("path", ["check", "send"])
async def test_software_that_is_not_offered_is_refused_with_what_is(on_hub, service, fetch, fields, said, path):
    status, problem = await fetch("POST", path, body=a_request(**fields))
    assert (status, problem["code"], problem["field"]) == (422, "unknown_software", "software")
    assert said in problem["message"]
    if "cobol" in said:
        assert all(name in problem["message"] for name in ("py-other", *IMAGES))
    assert sent_jobs(service) == []


async def test_a_kernel_that_names_no_command_is_not_offered(on_hub, service, fetch, jp_kernel_dir):
    for name, argv in (("py-none", []), ("py-empty", ["", "{connection_file}"])):
        (jp_kernel_dir / name).mkdir()
        spec = {"argv": argv, "display_name": name, "language": "python"}
        (jp_kernel_dir / name / "kernel.json").write_text(json.dumps(spec))
        status, problem = await fetch("POST", "send", body=a_request(software=name))
        assert (status, problem["code"], problem["field"]) == (422, "unknown_software", "software")
        offered = problem["message"].partition("Offered are: ")[2]
        assert "py-other" in offered
        assert name not in offered
    assert sent_jobs(service) == []


async def test_a_preview_says_which_kernel_the_job_would_have(on_hub, service, fetch):
    service.answers["POST", "jobs/preview"] = (200, {"starts_now": True, "sentence": "Starts now.", "gpus": "1"})
    for software, named in (("py-other", "py-other"), ("JAX", ""), ("", "")):
        await fetch("POST", "preview", body={"queue": "vision", "software": software})
        assert (service.bodies[-1]["software"], service.bodies[-1]["kernel"]) == (software, named)


async def test_variables_go_along_into_a_kernel_that_can_load_them(kernel, service, fetch):
    await run_all(kernel, "data = [1]")
    request = asks_for(kernel, "print(data)", "data = [1]", software="py-other")
    status, answer = await fetch("POST", "variables", body=request)
    assert (status, reasons(answer)) == (200, {"data": ""})
    await fetch("POST", "send", body={**request, "prefix": [], "capture": answer["id"]})
    manifest = service.bodies[-1]["bundle"]["manifest"]
    assert (manifest["kernel"]["name"], manifest["carried"]["pickles"][0]["names"]) == ("py-other", ["data"])


async def test_variables_stay_if_the_python_of_the_job_has_another_version(kernel, fetch):
    await run_all(kernel, "data = [1]")
    request = asks_for(kernel, "print(data)", "data = [1]", software="py-old")
    status, answer = await fetch("POST", "variables", body=request)
    made = "{}.{}".format(*sys.version_info)
    said = f"Variables stay: they were made by Python {made}, and the job has Python 3.4."
    assert (status, reasons(answer), answer["replayed"]) == (200, {"data": said}, [0])


async def test_variables_stay_if_the_job_runs_in_another_image(kernel, service, fetch):
    await run_all(kernel, "data = [1]")
    request = asks_for(kernel, "print(data)", "data = [1]")
    _, plan = await fetch("POST", "check", body={**request, "software": "JAX"})
    assert plan["carry"] == {"offered": False, "suggested": False}
    status, problem = await fetch("POST", "variables", body={**request, "software": "JAX"})
    assert (status, problem["field"]) == (422, "capture")
    assert "cannot go along into the image 'JAX'" in problem["message"]
    _, answer = await fetch("POST", "variables", body=request)
    status, problem = await fetch("POST", "send", body={**request, "software": "JAX", "capture": answer["id"]})
    assert (status, problem["field"]) == (422, "capture")
    assert sent_jobs(service) == []


async def test_code_in_a_kernel_names_the_software_too(kernel, extension, service):
    extension.kernel_socket.start()
    await run(kernel, "import jupyter_gq\n%reload_ext jupyter_gq")
    await run(kernel, "def f():\n    return 1\njupyter_gq.submit(f, software='JAX', check=False)")
    await run(kernel, "jupyter_gq.sweep(lambda x: x, {'x': [1]}, software='JAX', check=False)")
    await run(kernel, "%%train --software JAX --no-replay\nprint(1)")
    assert [body["software"] for body in sent_jobs(service)] == ["JAX", "JAX", "JAX"]
    said = await run(kernel, "jupyter_gq.submit(f, software='cobol', check=False)")
    assert "There is no software 'cobol' here" in said


async def test_a_module_that_lies_outside_of_the_folder_is_told(on_hub, service, fetch, jp_root_dir, monkeypatch):
    cells = a_notebook(code("train", "from outside_of_all import f"))
    request, lib = a_request(notebook=cells, prefix=[]), jp_root_dir / "lib"
    lib.mkdir()
    (lib / "outside_of_all.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(lib))
    for reached, said in (("/", f"stays in {lib}, and the job imports"), ("/data", "the job does not find it in")):
        service.files |= {"reached": [reached]}
        _, plan = await fetch("POST", "check", body=request)
        (stays,) = plan["files"]["staying"]
        assert (stays["path"], stays["reached"], said in stays["message"]) == ("outside_of_all", reached == "/", True)

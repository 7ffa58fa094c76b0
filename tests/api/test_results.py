"""What a job brings back is listed for those who see the job, and its values are read by the owner alone."""

import pytest

from .world import World, make_bundle, submission

pytestmark = pytest.mark.asyncio
ENTRY = {"name": "model", "type": "Net", "bytes": 6, "sha256": "0" * 64, "path": "vars/0.pickle", "reason": ""}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


async def sent(world, served):
    """Send a job of ann that returns `model`; return its id."""
    bundle = make_bundle()
    bundle["manifest"]["returns"] = ["model"]
    answer = await served.ask("POST", "api/v1/jobs", body=submission(bundle).model_dump())
    assert answer.code == 201, answer.body
    return answer.headers["Location"].removeprefix("jobs/")


async def test_the_runner_is_told_what_to_return_and_how_much(serve, world):
    served = await serve(world.controller)
    job = await sent(world, served)
    kept = world.bundles.kept[job]
    assert kept["manifest"]["returns"] == ["model"]
    assert kept["max_result_bytes"] == 256 * 1024 * 1024
    assert b'"returns":["model"]' in (await served.ask("GET", f"api/v1/jobs/{job}")).body


@pytest.mark.parametrize("names", [["a b"], ["1x"], ["x.y"], ["class"], ["a", "a"], [""], ["x"] * 101])
async def test_what_is_no_name_of_a_variable_is_refused(serve, world, names):
    served = await serve(world.controller)
    bundle = make_bundle()
    bundle["manifest"]["returns"] = names
    document = {"queue": "vision", "gpus": "0.5", "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", body=document)
    assert (status, problem["field"]) == (422, "bundle.manifest.returns")


async def test_results_are_listed_and_read_in_parts_by_their_owner(serve, world, monkeypatch):
    monkeypatch.setattr("jupyter_gq.controller.requests.jobs.RESULT_PART", 4)
    served = await serve(world.controller)
    job = await sent(world, served)
    assert (await served.problem("GET", f"api/v1/jobs/{job}/results"))[0] == 404
    world.bundles.listed[job] = {"python": "3.12", "variables": [ENTRY], "files": [{"path": "a/b.csv", "bytes": 1}]}
    world.bundles.brought[job, "vars/0.pickle"] = b"123456"
    listed = await served.ask("GET", f"api/v1/jobs/{job}/results")
    assert (listed.code, b'"name":"model"' in listed.body, b"a/b.csv" in listed.body) == (200, True, True)
    parts = [
        (await served.ask("GET", f"api/v1/jobs/{job}/results/content?path=vars/0.pickle&start={start}")).body
        for start in (0, 4, 6)
    ]
    assert parts == [b"1234", b"56", b""]
    world.bundles.brought[job, "vars/0.pickle"] = b"1234"  # its last bytes are gone
    for missing, start in (("vars/1.pickle", 0), ("files/a/b.csv", 0), ("vars/0.pickle", 4)):
        content = f"api/v1/jobs/{job}/results/content?path={missing}&start={start}"
        status, problem = await served.problem("GET", content)
        assert (status, f"has no result '{missing}'" in problem["message"]) == (404, True)


@pytest.mark.parametrize(("who", "listing", "reading"), [("bob", 404, 404), ("root", 200, 403)])
async def test_values_are_for_their_owner_even_from_administrators(serve, world, who, listing, reading):
    served = await serve(world.controller)
    job = await sent(world, served)
    world.bundles.listed[job] = {"variables": [ENTRY]}
    world.bundles.brought[job, "vars/0.pickle"] = b"secret"
    assert (await served.ask("GET", f"api/v1/jobs/{job}/results", token=who)).code == listing
    content = await served.ask("GET", f"api/v1/jobs/{job}/results/content?path=vars/0.pickle", token=who)
    assert (content.code, b"secret" in content.body) == (reading, False)


@pytest.mark.parametrize(
    "path", ["../bundle.json", "/etc/passwd", "vars/../../bundle.json", "", "vars//x", "a%00b", "."]
)
async def test_a_path_never_leads_out_of_the_results(serve, world, path):
    served = await serve(world.controller)
    job = await sent(world, served)
    status, _ = await served.problem("GET", f"api/v1/jobs/{job}/results/content?path={path}")
    assert status in {409, 422}


@pytest.mark.parametrize(
    "forged", [{"variables": 5}, {"variables": [{"name": "x"}]}, {"files": [{"path": "a", "bytes": -1}]}]
)
async def test_a_forged_list_is_refused_and_breaks_nothing(serve, world, forged):
    served = await serve(world.controller)
    job = await sent(world, served)
    world.bundles.listed[job] = forged
    status, problem = await served.problem("GET", f"api/v1/jobs/{job}/results")
    assert (status, problem["code"]) == (409, "unusable_file")

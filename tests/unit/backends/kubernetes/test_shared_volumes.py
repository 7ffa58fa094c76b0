"""Homes and data are in the pods of jobs at the path of the notebooks, and nobody has the home of another user."""

from dataclasses import replace

import pytest
from kubespawner.slugs import safe_slug
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.settings import KubernetesBackend

from .paper_backend import PaperBackend
from .test_manifests import OPTIONS, a_pod

HOME = {"claim": "homes", "path": "/home/jovyan", "sub_path": "{username}/work"}
DATA = {"claim": "imagenet", "path": "/data/imagenet"}


def shared_volumes():
    return KubernetesBackend(hub_namespace="hub", home_volume=HOME, data_volumes=[DATA]).options().shared_volumes


def volumes_of(owner="ann"):
    pod = a_pod(replace(OPTIONS, shared_volumes=shared_volumes()), owner=owner)["spec"]
    volumes = {each["name"]: each.get("persistentVolumeClaim") for each in pod["volumes"]}
    mounts = [each for each in pod["containers"][0]["volumeMounts"] if each["name"].startswith("gq-shared")]
    return [(volumes[mount.pop("name")], mount) for mount in mounts]


def test_the_home_can_be_written_and_the_data_not():
    assert volumes_of() == [
        (
            {"claimName": "homes", "readOnly": False},
            {"mountPath": "/home/jovyan", "readOnly": False, "subPath": "ann/work"},
        ),
        ({"claimName": "imagenet", "readOnly": True}, {"mountPath": "/data/imagenet", "readOnly": True}),
    ]


def test_jobs_reach_the_home_and_the_data_and_without_them_no_folder():
    for volumes, reached in ((shared_volumes(), ("/home/jovyan", "/data/imagenet")), ((), ())):
        backend = PaperBackend(shared_volumes=volumes)
        assert backend.runs.capabilities.reached_folders == reached


def test_no_name_of_an_owner_leads_to_the_home_of_another_one():
    paths = {volumes_of(owner)[0][1]["subPath"] for owner in ("ann", "Ann", "../ann", "ann/..", "", "{username}")}
    assert len(paths) == 6
    assert not any(".." in path or path.startswith("/") for path in paths)


@pytest.mark.parametrize(
    "user",
    [
        "ann",
        "ann-b",
        "a--b",
        "Ann",
        "ann@example.org",
        "7up",
        "-",
        "",
        "x" * 63,
        "x" * 64,
        "ä" * 40,
        "1" * 64,
        "a" * 20 + "-.b",
    ],
    ids=lambda user: user[:22] or "empty",
)
def test_a_user_has_the_name_that_the_notebooks_volumes_have(user):
    assert names.hub_user(user) == safe_slug(user)


@pytest.mark.parametrize(
    "home",
    [
        {"claim": "homes", "path": "/home/jovyan"},
        {**HOME, "path": "home"},
        {**HOME, "path": "/gq/job"},
        {**HOME, "path": "/home/../gq"},
        {**HOME, "sub_path": "../{username}"},
        {**HOME, "subPath": "x"},
        {"path": "/home/jovyan", "sub_path": "{username}"},
        {**HOME, "claim": 3},
        {**HOME, "claim": "Homes_X"},
        {**HOME, "claim": "h" * 254},
        {**HOME, "path": "/home/jovyan:ro"},
        {**HOME, "path": "/home\n"},
        {**HOME, "path": "/proc"},
        {**HOME, "path": "/dev/shm"},
    ],
    ids=str,
)
def test_a_home_that_would_be_shared_or_lies_elsewhere_is_refused(home):
    with pytest.raises(TraitError, match=r"^c\.KubernetesBackend\.home_volume = "):
        KubernetesBackend(home_volume=home)


def test_data_needs_a_claim_and_a_path():
    with pytest.raises(TraitError, match="data_volumes"):
        KubernetesBackend(data_volumes=[{"claim": "imagenet"}])


@pytest.mark.parametrize("path", ["/data", "/data/", "/home/jovyan"])
def test_two_volumes_never_have_one_path(path):
    config = Config()
    config.KubernetesBackend.data_volumes = [DATA | {"path": "/data"}, DATA | {"path": path}]
    config.KubernetesBackend.home_volume = HOME
    with pytest.raises(TraitError, match="two volumes have the path /"):
        KubernetesBackend(config=config)

"""Manifests in requests hold no secrets, and no variables that a program could not have."""

import pytest
from pydantic import ValidationError

from jupyter_gq.client.models import Kernel, Manifest


def a_manifest(**fields):
    kernel = Kernel(name="python3", argv=["python"])
    targets = [{"cell_id": "a", "source_hash": ""}]
    return Manifest(notebook_path="a.ipynb", cwd="/home/ann", kernel=kernel, targets=targets, **fields)


@pytest.mark.parametrize("variable", [("HF_TOKEN", "hunter2"), ("STORE", "s3://ann:hunter2@store/")])
def test_a_secret_in_the_environment_is_refused_without_its_value(variable):
    with pytest.raises(ValidationError) as refused:
        a_manifest(environment=dict([variable]))
    assert f"{variable[0]} looks like a secret" in str(refused.value.errors(include_input=False))
    assert a_manifest(environment={"EPOCHS": "3"}).environment == {"EPOCHS": "3"}


@pytest.mark.parametrize("name", ["A B", "A=B", " "])
def test_a_name_that_no_variable_can_have_is_refused(name):
    with pytest.raises(ValidationError, match="is no name of a variable: letters, digits and _ were expected"):
        a_manifest(environment={name: "1"})
    assert a_manifest(environment={"BASH_FUNC_f%%": "1"}).environment


def test_of_a_secret_in_the_kernelspec_only_the_name_is_kept():
    kernel = Kernel(name="k", argv=["k"], env={"HF_TOKEN": "hunter2", "DATA": "/data"}, env_names=["HF_TOKEN"])
    assert (kernel.env, kernel.env_names) == ({"DATA": "/data"}, ["HF_TOKEN"])

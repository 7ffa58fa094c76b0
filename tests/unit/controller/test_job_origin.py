"""What a job was made from, as its owner sees it."""

import pytest

from jupyter_gq.client.models import Carried

from .world import ANN, World, a_submission

pytestmark = pytest.mark.asyncio


async def test_a_call_of_a_function_is_told_from_the_cells_of_its_notebook(tmp_path):
    world = World(tmp_path)
    cells = world.send(ANN, "vision")
    submission = a_submission()
    manifest = submission.bundle.manifest
    (target,) = manifest.targets
    calling = manifest.model_copy(update={"targets": [target.model_copy(update={"cell_id": "call"})]})
    bundle = submission.bundle.model_copy(update={"manifest": calling})
    call = world.controller.jobs.submit(ANN, submission.model_copy(update={"bundle": bundle}), None)[0].id
    assert [world.job(job).origin for job in (cells, call)] == ["notebook", "call"]
    assert world.job(call).notebook_path == "digits.ipynb"
    world.close()


async def test_what_its_owner_chose_to_run_first_is_told_also_after_a_restart(tmp_path):
    world = World(tmp_path)
    submission = a_submission()
    carried = Carried(python="3.12", pickles=[])
    chosen = {"left_out_cells": ["load", "plot"], "carried": carried}
    manifest = submission.bundle.manifest.model_copy(update=chosen)
    bundle = submission.bundle.model_copy(update={"manifest": manifest})
    chosen_job = world.controller.jobs.submit(ANN, submission.model_copy(update={"bundle": bundle}), None)[0].id
    plain_job = world.send(ANN, "vision")
    world.restart()
    views = [world.job(job) for job in (chosen_job, plain_job)]
    assert [view.left_out_cells for view in views] == [["load", "plot"], None]
    assert [view.carries_variables for view in views] == [True, False]
    world.close()

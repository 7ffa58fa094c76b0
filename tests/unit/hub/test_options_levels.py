"""The options page says at which level the memory limit of a part of a GPU is enforced, and what that means."""

import pytest

from jupyter_gq.client.models import Me
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.hub import options_form
from tests.hub.scripted_service import me


def page(**fields) -> str:
    told = Me.model_validate(me("ann", **fields))
    view = options_form.OptionsView(cards=[], me=told, pool=options_form._summarize_pool(told.pools[0], told))
    return options_form._load_templates().get_template("gq_options.html").render(view=view)


@pytest.mark.parametrize("level", ShareLevel)
def test_each_level_is_on_the_page_with_its_meaning(level):
    sentence = f"A part of a GPU has a memory limit that is {level.value}. {level.meaning}"
    assert sentence.replace("'", "&#39;") in page(level_sentence=sentence)


def test_a_service_that_tells_no_level_leaves_no_empty_line():
    assert "<div></div>" not in page(level_sentence="")
    assert "memory limit that is" not in page(level_sentence="")

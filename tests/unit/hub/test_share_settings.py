"""The names that are checked without a hub are those of the mixin."""

from jupyter_gq.hub.mixin import GPUShareMixin
from jupyter_gq.hub.share_settings import GPU_SHARE_TRAITS


def test_the_names_are_those_of_the_mixin():
    assert set(GPUShareMixin.class_trait_names(config=True)) == GPU_SHARE_TRAITS

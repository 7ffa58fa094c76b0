"""The unpickler of values that were made in another kernel, with or without a GPU."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import cast


class Unpickler(pickle.Unpickler):
    """An unpickler that puts tensors of a GPU into main memory if this kernel has no GPU."""

    def find_class(self, module: str, name: str) -> object:
        """Return the object of that name in a module, or for PyTorch's storages a function that needs no GPU."""
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _make_storage_loader(cast("Callable[[bytes], object]", super().find_class(module, name)))
        return super().find_class(module, name)


def _make_storage_loader(own: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Return PyTorch's own loader of storages if there is a GPU, else one that maps them to main memory."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    if torch.cuda.is_available():
        return own
    return lambda content: torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)

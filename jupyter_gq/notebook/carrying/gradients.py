"""Gradients of PyTorch's tensors, which its own pickling leaves out: a step of the optimizer would do nothing."""

from __future__ import annotations

import sys


def keep_gradient(value: object, reduced: object) -> object:
    """Return what pickle writes for a value, with the gradient of a tensor of PyTorch; without one, `reduced` itself.

    A release of PyTorch that cannot set the gradient by a function of its own gets none in the job.
    """
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if not isinstance(tensor, type) or not isinstance(value, tensor):
        return reduced
    # Another tensor than a leaf has no gradient, and warns when it is asked for one.
    gradient = getattr(value, "grad", None) if getattr(value, "is_leaf", False) else None
    setter = getattr(getattr(torch, "_utils", None), "_set_obj_state", None)
    if gradient is None or setter is None or not isinstance(reduced, tuple) or len(reduced) != 2:
        return reduced
    return (*reduced, {"grad": gradient}, None, None, setter)

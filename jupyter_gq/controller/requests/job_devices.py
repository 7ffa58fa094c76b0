"""The devices of each task of a job: a number, a fraction or an amount of memory, and their models.

Rules
-----
One amount: a task asks for GPUs or for GPU memory. GPU memory is a part of one GPU, so beside it the number of GPUs is
1.

Known models: a required or preferred model that the pool does not have is refused with the models that it has, because
a misspelt preference would otherwise never be noticed.

See docs/decisions/0134-let-jobs-name-gpu-memory.md.
"""

from dataclasses import replace

from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import ONE_GPU, MiB, MilliGpu, format_memory, parse_memory, parse_request
from jupyter_gq.domain.errors import InvalidAmount, NeverFits, Resource
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind, Request
from jupyter_gq.scheduling.wording import enumerate_names


def build_device_request(context: Context, asked: JobFields) -> Request:
    """Return the devices that each task asks for, without host resources.

    Raises the errors of `parse_devices`, and `NeverFits` for a GPU model without a GPU.
    """
    request = replace(
        parse_devices(context, asked.gpus, asked.gpu_memory),
        models=() if asked.gpu_model is None else (asked.gpu_model,),
        preferred_models=tuple(dict.fromkeys(asked.preferred_gpu_models)),
    )
    check_models(request)
    return request


def parse_devices(context: Context, gpus: str | int | float, gpu_memory: str | int | float | None) -> Request:
    """Return the request for a number of GPUs, or for GPU memory beside the number 1, of any model.

    Raises `InvalidAmount` for an invalid amount, or if GPU memory is named beside another number than 1.
    """
    milli, memory = parse_request(gpus), _parse_gpu_memory(gpu_memory)
    if memory is not None and milli != ONE_GPU:
        _refuse_both(gpus, milli, memory)
    return context.request(Kind.TRAINING, milli, memory)


def check_models(request: Request) -> None:
    """Raise `NeverFits` if GPU models are named for a request without a GPU, or preferred beside a required one."""
    for resource, models in (
        (Resource.MODEL, request.models),
        (Resource.PREFERRED_MODELS, request.preferred_models),
    ):
        if models and not request.devices:
            raise NeverFits(
                f"You asked for the GPU model {models[0]}, but for no GPU. Leave the model out, or ask for a GPU.",
                resource,
            )
    if request.models and request.preferred_models:
        raise NeverFits(
            f"Only the GPU model {request.models[0]} may be used, so no other can be preferred. Name the model either "
            "as required or as preferred.",
            Resource.PREFERRED_MODELS,
        )


def check_preferred_models(snapshot: Snapshot, pool: str, asked: JobFields) -> None:
    """Raise `NeverFits` if a preferred model is none of the pool's; a pool without any GPU passes."""
    nodes = (*snapshot.nodes, *(new.like for new in snapshot.new_nodes))
    known = sorted({device.model for node in nodes for device in node.devices if device.pool == pool})
    unknown = [model for model in asked.preferred_gpu_models if model not in known]
    if known and unknown:
        raise NeverFits(
            f"You prefer the GPU model {unknown[0]}, but the pool {pool} has none. It has {enumerate_names(known)}.",
            Resource.PREFERRED_MODELS,
        )


def _parse_gpu_memory(written: str | int | float | None) -> MiB | None:
    """Return an amount of GPU memory in MiB, None for None; raise `InvalidAmount` if it is invalid or 0."""
    if written is None:
        return None
    try:
        memory = parse_memory(written)
    except InvalidAmount as error:
        raise InvalidAmount(written, error.problem, error.fix, Resource.GPU_MEMORY) from error
    if memory == 0:
        raise InvalidAmount(written, "a task with a GPU needs some", "use more, or leave it out", Resource.GPU_MEMORY)
    return memory


def _refuse_both(gpus: str | int | float, milli: MilliGpu, memory: MiB) -> None:
    """Raise `InvalidAmount`, because GPU memory and another number of GPUs than 1 are named."""
    problem = f"{format_memory(memory)} of GPU memory, which you named too, is a part of one GPU"
    fix = "name either GPU memory or a fraction" if milli < ONE_GPU else "ask for whole GPUs without GPU memory"
    raise InvalidAmount(gpus, problem, fix)

"""Code of ours that a kernel of this server runs, without a trace in its history."""

import asyncio

from jupyter_client.session import Session

from jupyter_gq.domain.errors import MachineError
from jupyter_gq.lab.jupyter_parts import Kernels

#: Events of a kernel's restarter: the kernel ended and is started again, or stays away.
_ENDS = ("restart", "dead")


class KernelEnded(MachineError):
    """A kernel that ended, and perhaps was started again, before it answered."""


async def execute(kernels: Kernels, kernel_id: str, code: str, seconds: float) -> bool:
    """Let a kernel run this code silently; return whether it has answered within `seconds`.

    The code waits behind cells that run. Raises `KernelEnded` if the kernel ends meanwhile, and `OSError` for a kernel
    without sockets here, as one behind a gateway.
    """
    manager = kernels.get_kernel(kernel_id)
    try:
        stream = manager.connect_shell()
        session = Session(config=manager.session.config, key=manager.session.key)
    except (AttributeError, TypeError) as error:
        raise OSError("This kernel has no sockets here.") from error
    answered = asyncio.get_running_loop().create_future()

    def note_answer(_: object) -> None:
        if not answered.done():
            answered.set_result(None)

    def note_end() -> None:
        if not answered.done():
            answered.set_exception(KernelEnded("The kernel ended before it answered."))

    stream.on_recv(note_answer)
    for event in _ENDS:
        kernels.add_restart_callback(kernel_id, note_end, event)
    options = {"silent": True, "store_history": False, "allow_stdin": False, "stop_on_error": False}
    session.send(stream, session.msg("execute_request", {"code": code, "user_expressions": {}, **options}))
    try:
        await asyncio.wait_for(answered, seconds)
    except TimeoutError:
        return False
    finally:
        for event in _ENDS if kernel_id in kernels else ():
            kernels.remove_restart_callback(kernel_id, note_end, event)
        stream.close()
    return True

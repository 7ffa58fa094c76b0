"""Code of ours that a kernel of this server runs, without a trace in its history."""

import asyncio

from jupyter_client.session import Session

from jupyter_gq.lab.jupyter_parts import Kernels


async def execute(kernels: Kernels, kernel_id: str, code: str, seconds: float) -> bool:
    """Let a kernel run this code silently; return whether it has answered within `seconds`.

    The code waits behind cells that run. Raises `OSError` for a kernel without sockets here, as one behind a gateway.
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

    stream.on_recv(note_answer)
    options = {"silent": True, "store_history": False, "allow_stdin": False, "stop_on_error": False}
    session.send(stream, session.msg("execute_request", {"code": code, "user_expressions": {}, **options}))
    try:
        await asyncio.wait_for(answered, seconds)
    except TimeoutError:
        return False
    finally:
        stream.close()
    return True

"""Routes of the agents on the nodes."""

from jupyter_gq.api.call import Call, Reply


async def report(call: Call) -> Reply:
    """Accept an agent's report; answer with its orders, at once if they differ from the last ones, else on change."""
    wait = float(call.query["wait"])
    return Reply(body=await call.services.agents.accept_report(call.path["node"], call.pod, call.body, wait))

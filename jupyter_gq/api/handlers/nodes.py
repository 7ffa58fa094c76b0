"""Routes of the agents on the nodes."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.client.agents import AgentReport


async def report(call: Call) -> Reply:
    """Accept an agent's report; answer with its orders, at once if they differ from the last ones, else on change."""
    report, wait = call.model(AgentReport), float(call.integer("wait"))
    return Reply(body=await call.services.agents.accept_report(call.path["node"], call.pod, report, wait))

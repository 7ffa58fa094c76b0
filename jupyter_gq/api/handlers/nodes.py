"""Routes of the agents on the nodes, and of what they tell about their nodes."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.client.agents import AgentReport


async def report(call: Call) -> Reply:
    """Store the report of a node's agent, and answer with the agent's orders; only for the agent of that node.

    The answer comes at once if the orders differ from the last ones. Otherwise it comes when they change, or after the
    seconds in the query `wait`.
    """
    report, wait = call.model(AgentReport), float(call.integer("wait"))
    return Reply(body=await call.services.agents.accept_report(call.path["node"], call.pod, report, wait))


def list_nodes(call: Call) -> Reply:
    """Answer with what each node can do, as its agent told last; for admins. Raises `NotFound` without agents."""
    return Reply(body=call.services.agents.list_nodes())

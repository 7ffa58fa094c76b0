"""Routes of the agents on the nodes."""

from jupyter_gq.api.call import Call, Reply


async def report(call: Call) -> Reply:
    """What the agent sees; its orders, at once or as soon as they are others than it was told last."""
    orders = await call.controller.report_node(call.path["node"], call.pod, call.body, float(call.query["wait"]))
    return Reply(body=orders)

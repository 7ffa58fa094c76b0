"""The descriptions of nodes for administrators, from the last report of each agent."""

from jupyter_gq.client.agents import AgentReport
from jupyter_gq.client.models import NodeAbility, NodeDescription

from .agents import Agents


def describe_node(node: str, pool: str, offered: int, agents: Agents) -> NodeDescription:
    """Return what a node of this pool, which offers so many GPUs to the cluster, can do, as its agent told last."""
    report = agents.report(node)
    if report is None:
        return NodeDescription(
            node=node,
            pool=pool,
            agent="unheard",
            age=None,
            release="",
            gpus=0,
            offered=offered,
            obstacle=agents.unfit(node),
            abilities=None,
            missing={},
        )
    age = agents.seconds_since_report(node)
    return NodeDescription(
        node=node,
        pool=pool,
        agent="reporting" if agents.is_reporting(node) else "silent",
        age=None if age is None else round(age, 1),
        release=report.release,
        gpus=len(report.devices),
        offered=offered,
        obstacle=agents.unfit(node),
        abilities=_read_abilities(report),
        missing=report.missing,
    )


def _read_abilities(report: AgentReport) -> list[NodeAbility] | None:
    if report.abilities is None:
        return None
    return [
        NodeAbility(name=each.name, state=each.state, found=each.found, advice=each.advice) for each in report.abilities
    ]

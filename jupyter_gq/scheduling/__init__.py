"""Decide: one pure cycle from a snapshot to a decision; quota, order, placement, gangs, reclaim, preemption, idle."""

"""Accounts of the queue tree: usage, deserved and fair shares, limits, and who may reclaim from whom."""

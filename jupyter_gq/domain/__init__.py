"""Nouns and their laws: amounts, nodes, devices, queues, workloads, states, reasons, errors."""

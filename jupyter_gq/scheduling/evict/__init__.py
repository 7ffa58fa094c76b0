"""Steps that take devices back: drains, limits, consolidation, reclaim, preemption, and the victim search."""

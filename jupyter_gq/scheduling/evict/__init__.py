"""Take devices back: reclaim, preemption, consolidation, drains, lowered limits, and their victims."""

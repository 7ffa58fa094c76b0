"""The loop: observe, snapshot, decide, apply, record. Level-triggered: killed at any instant, it converges."""

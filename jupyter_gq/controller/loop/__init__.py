"""The steps of the control loop: observe, decide, record, act."""

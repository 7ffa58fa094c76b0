"""The steps of the control loop: observe, decide, write down, act."""

"""Real kernels, a real service process that can be killed."""

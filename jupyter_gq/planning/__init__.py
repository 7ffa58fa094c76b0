"""Commands of administrators: take the live state, run it again, change it, replay a trace, drain nodes and GPUs."""

"""Commands for whoever plans a cluster: take the live state, run it again, change it, replay a trace."""

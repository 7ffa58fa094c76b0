"""Records as their owners and administrators see them. Decides nothing."""

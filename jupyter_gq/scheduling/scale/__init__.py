"""How many new nodes a cluster that can grow is asked for."""

"""One server's way from its request to its share, whatever the spawner."""

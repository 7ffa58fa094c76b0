"""The admission of a server, from its request to its share, for every spawner."""

"""Access to the API server: the client, cached copies of objects, and writes that are retried."""

"""Act: the Backend protocol and its implementations. A backend does what it is told and decides nothing."""

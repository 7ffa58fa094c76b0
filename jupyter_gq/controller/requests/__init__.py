"""The objects that answer the requests of users, runners, spawners and agents."""

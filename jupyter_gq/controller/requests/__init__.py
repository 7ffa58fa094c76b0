"""The requests of users, runners, spawners and agents."""

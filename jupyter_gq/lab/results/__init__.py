"""What a job brings back into the folders of its user."""

"""What a user is told about the cells of a job before it is sent."""

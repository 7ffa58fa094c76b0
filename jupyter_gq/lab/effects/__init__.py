"""What cells do beside assigning variables: files, databases, commands, the state of their process."""

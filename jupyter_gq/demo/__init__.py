"""The product on one machine in one command, and the story of the README played against it."""

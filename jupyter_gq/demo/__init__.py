"""The demo: the product on one machine in one command, and the story of the README as a script that checks it."""

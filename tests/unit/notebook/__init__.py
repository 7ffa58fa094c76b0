"""What runs in the kernel of the user."""

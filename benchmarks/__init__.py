"""What the product costs, measured beside a named peer in the same run. Each module prints one table."""

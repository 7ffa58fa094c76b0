"""Inside the user's kernel: what a cell can ask (should_stop, ...), the memory caps of its share."""

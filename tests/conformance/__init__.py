"""The scheduling core beside decision tables of other schedulers."""

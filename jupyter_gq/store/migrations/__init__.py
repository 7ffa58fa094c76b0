"""Numbered changes of the schema; each release runs what a database lacks."""

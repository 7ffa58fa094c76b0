"""The plan of a job: which cells would run, and what their user is told about each before sending."""

"""Wire models and the HTTP client of the scheduler service."""

"""The documentation; `python -m docs.generate` writes its generated pages."""

"""Outputs on their way to the service: the spool on disk, the uploader, the output budget."""

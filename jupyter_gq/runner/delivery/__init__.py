"""Delivery of outputs to the service: the spool on disk, the uploader, the output budget."""

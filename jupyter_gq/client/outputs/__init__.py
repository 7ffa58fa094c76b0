"""The outputs of a job: how they are delivered, folded and shown as text."""

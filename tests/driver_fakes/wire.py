"""Pickled messages over pipes, between a test and the child that it started."""

import pickle


def send(pipe, message):
    """Write one message."""
    pickle.dump(message, pipe)
    pipe.flush()


def receive(pipe):
    """Return the next message; raise `EOFError` at the end."""
    return pickle.load(pipe)

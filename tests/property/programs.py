"""Programs that a strategy has made."""


def can_compile(source):
    """Return whether Python can compile a program."""
    try:
        compile(source, "<program>", "exec")
    except SyntaxError:
        return False
    return True

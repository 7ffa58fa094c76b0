"""The token of the user, as a request can carry it."""

import re

from jupyter_gq.commands.refusal import CommandRefused

_LONGEST = 1000
#: Visible ASCII characters: others cannot stand in the header of a request, or no token of a Hub has them.
_TOKEN = re.compile("[!-~]*")


def clean_token(text: str, place: str) -> str:
    """Return the token in a text without the white space around it; "" if there is nothing else.

    Raises `CommandRefused` for a text that cannot be a token. The sentence of the error names `place`, where the token
    comes from, and never holds the token.
    """
    token = text.strip()
    if len(token) > _LONGEST:
        wrong = f"has {len(token)} characters, and a token has at most {_LONGEST}"
    elif not _TOKEN.fullmatch(token):
        wrong = "holds a space, a line break or another character that no token has"
    else:
        return token
    raise CommandRefused(f"The token {place} {wrong}. Copy it again from the Hub's token page.")

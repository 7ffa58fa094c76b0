"""The variables that probably hold a secret, by their names and values. Pure, standard library only.

Rules
-----
- Names: words such as TOKEN, SECRET and PASSWORD anywhere, and KEY, PASS, PWD, AUTH and PAT as words of their own. A
  name that counts tokens (MAX_TOKENS) or sets a tokenizer (TOKENIZERS_PARALLELISM) holds no secret.
- Values: an address with a password in it (`https://user:password@host/`), whatever its name.
- In doubt a variable counts as a secret: its user then stores it as one, and nothing leaks.

See docs/decisions/0131-name-secrets-and-never-send-them.md.
"""

import re

_SECRET = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|COOKIE|CREDENTIAL|KEY$|KEYS$|(?:^|_)(?:KEY|KEYS|PASS|PWD|AUTH|PAT)(?:_|$)",
    re.IGNORECASE,
)
_COUNT = re.compile(r"(?:MAX|MIN|NUM|N)_(?:[A-Z0-9]+_)*TOKENS", re.IGNORECASE)
#: Names that only look like secrets: the working folder, and the socket of an agent.
_HARMLESS = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s@:]*:[^/\s@]+@")


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name probably holds a secret."""
    return name not in _HARMLESS and not _COUNT.fullmatch(name) and _SECRET.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Return whether this variable probably holds a secret, by its name or because its value is such an address."""
    return is_secret_name(name) or _PASSWORD_IN_ADDRESS.search(value) is not None


def explain_secret(name: str) -> str:
    """Return as a sentence without its full stop why a variable is not sent, and what to do."""
    return (
        f"{name} looks like a secret, so its value is never sent. Store it once with `jupyter-gq secret set {name}`, "
        "and name it as a secret of the job"
    )

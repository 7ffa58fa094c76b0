"""The files that often hold secrets, by the names that programs give them. Pure.

The patterns are those of `.gitignore`, and are compared with names in small letters. A folder ends with a slash: all
that is in it counts, also if the notebook's folder is below it. `!` leaves out what the patterns before it name: a
folder of code may be called `credentials`.
"""

import re
from typing import Final

#: Keys and certificates.
_KEYS = (
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
)
#: Files that name what they hold.
_NAMED = (
    *(
        "*.env.*",
        "!*.env.py",
        "!*.env.ipynb",
        ".env*",
        "*.env",
        "*secret*.json",
        "*secret*.y*ml",
        "*secret*.toml",
        "*cookie_secret",
    ),
    *("credentials", "!credentials/", "*credentials.json", "credentials.toml", "credentials.y*ml", "credentials.ini"),
    *(".*credentials*", "credentials.csv", "*accesskeys.csv", "service?account*.json", "hf_token", "kaggle.json"),
    *("token.json", "token.pickle", ".*token", "*.tfstate", "*.tfstate.*", "*.tfvars", "*kubeconfig"),
)
#: What programs keep in the home of a user.
_OF_PROGRAMS = (
    *(".netrc*", "_netrc", ".pypirc", "pip.conf", ".npmrc", ".yarnrc*", ".condarc", ".htpasswd", "auth.json"),
    *(".pgpass", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto", "rclone.conf", ".databrickscfg"),
    *(
        ".vault-token",
        ".modal.toml",
        ".comet.config",
        "clearml.conf",
        ".dockercfg",
        ".terraformrc",
        "*.tfrc.json",
        ".renviron",
    ),
    *(".*_history", ".rhistory", ".histfile", "jpserver-*.json", "nbserver-*.json", "jupyter_gq_login.json"),
    *("**/huggingface/token", "**/huggingface/stored_tokens", "**/.huggingface/token"),
    *("**/gh/hosts.yml", "**/pypoetry/auth.toml", "jupyter_server_config.json", "jupyter_notebook_config.json"),
)
#: Folders of programs that keep little else.
SECRET_FOLDERS: Final = (
    *(".ssh/", ".aws/", ".azure/", ".gnupg/", ".kube/", ".docker/", ".oci/", ".kaggle/", ".password-store/"),
    *("**/.config/gcloud/", "**/.config/jupyter-gq/", "**/jupyter/runtime/", "**/share/keyrings/"),
    *("**/.config/github-copilot/", "**/.config/doctl/", "**/.config/chromium/", "**/.config/google-chrome/"),
    *(".snowflake/", ".mozilla/"),
)
SECRET_FILES: Final = (*_KEYS, *_NAMED, *_OF_PROGRAMS, *SECRET_FOLDERS)
#: What programs and people add to the end of a name for a copy, before its ending or after it.
_MARKS = (
    r"(?: -)?[-_ ]copy ?\d*",  # a-Copy1.csv of JupyterLab, "a - Copy.csv" of Windows, "a copy 2.csv" of macOS
    r" ?\((?:(?:another |\d+\w\w )?copy ?)?\d*\)",  # a(1).csv and "a (1).csv" of browsers, "a (copy).csv" of GNOME
    r"[-_. ](?:bak|backup|old|orig|save)[-_.]?\d*",
    r"(?:\.~\d+)?~",
)
#: One of them at the end of a name. One at a time: a search for several of them could take exponentially long.
_MARK = re.compile(rf"(?:{'|'.join(_MARKS)})\Z")
#: Most of them that are taken off a name.
_MOST_MARKS = 10
#: What they put around a name, and the ending of a swap file.
_AROUND = re.compile(r"\A(?:(?:copy of )+|#)|(?:#|\.sw[a-p])\Z")
#: The dot that an editor puts before a name with its .swp, unless there is one.
_DOT_OF_SWAP = re.compile(r"\A\.(?=.*\.sw[a-p]\Z)")


def list_originals(path: str) -> list[str]:
    """Return the paths of the files of which a file may be a copy, by its name; the first one is the path itself.

    `path` is in small letters. In a copied folder, they lie in the original one.
    """
    names = path.split("/")
    original = "/".join(map(_find_original, names))
    if original == path:
        return [path]
    return [path, original, "/".join(_find_original(_DOT_OF_SWAP.sub("", name)) for name in names)]


def _find_original(name: str) -> str:
    """Return a name of a file or folder without what it has as a copy, also before its ending such as `.json`."""
    name = _AROUND.sub("", name)
    for _ in range(_MOST_MARKS):
        stem, dot, ending = name.rpartition(".")
        shorter = _MARK.sub("", name)
        if shorter == name and stem:
            shorter = _MARK.sub("", stem) + dot + ending
        if shorter in ("", name):
            break
        name = shorter
    return name

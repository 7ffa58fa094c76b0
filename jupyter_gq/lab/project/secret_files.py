"""The files that often hold secrets, by the names that programs give them. Pure.

The patterns are those of `.gitignore`, and are compared with names in small letters. A folder ends with a slash: all
that is in it counts, also if the notebook's folder is below it. Words such as `credentials` count in names of files
only: a folder of code may be called so.

See docs/decisions/0460-let-the-ending-tell-an-environment-file.md and
docs/decisions/0474-tell-secrets-by-whole-names.md.
"""

import re
from functools import lru_cache
from typing import Final

from .globs import Glob, glob_of_names

#: Endings of code and data, as a regular expression. Plain text is none: it often holds a secret itself.
_PLAIN = (
    r"py[iwx]?|ipynb|rmd|qmd|jl|cc|cpp|cu|cuh|hpp|rs|go|java|js|tsx?|css|lua|sql|md|rst|tex|bib|html?|jsonl"
    r"|[ct]sv|parquet|feather|arrow|orc|np[yz]|pt|pth|ckpt|safetensors|onnx|h5|hdf5?|nc|zarr|mat|rds|rda|rdata"
    r"|tfrecords?|gguf|msgpack|lmdb|xlsx|pkl|pickle|joblib|png|jpe?g|gif|tiff?|webp|svg|pdf|mp4|wav"
)
#: Such endings after `.env`, where short ones and those of settings count too: a key may be in a file `id_rsa.json`.
_CODE_OR_DATA = rf"\.(?:{_PLAIN}|[cmhr]|bin|log|json|xml|ya?ml|toml)"
#: Endings of files that show others what to write, and hold no secrets.
_EXAMPLE = r"\.(?:example|sample|template|dist)"
#: Files with the variables of an environment. A folder such as `atari.env` has code.
_OF_ENVIRONMENTS = (
    glob_of_names(rf"\.env(?![^/]*{_EXAMPLE}\Z)[^/]*+", ".env"),
    glob_of_names(rf"(?![^/]*(?:{_EXAMPLE}|{_CODE_OR_DATA})\Z)[^/]+\.env(?:\.[^/]*+)?+", ".env", is_file=True),
)
#: What may stand before a word in a name.
_BEFORE = "(?:[^/]*[-_. ])?"
#: Keys and certificates.
_KEYS: Final[tuple[str | Glob, ...]] = (
    # certificates of authorities and public keys are for all to read
    glob_of_names(r"(?!(?:ca-?certs?|public(?:[-_ ]?key)?)\.)[^/]*\.pem", ".pem"),
    *("*.key", "*.p12", "*.pfx", "*.p8", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *(
        glob_of_names(rf"{_BEFORE}{name}(?![^/]*\.(?:pub|{_PLAIN})\Z)[^/]*+", literal, is_file=True)
        for name, literal in (
            *((each, each) for each in ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "kubeconfig")),
            ("priv(?:ate)?[-_ ]?key", "priv"),
        )
    ),
)
#: Keys that the programs of OpenPGP export. Other files with these endings are encrypted, signatures, or grids of data.
_EXPORTED: Final[tuple[str | Glob, ...]] = tuple(
    glob_of_names(rf"{_BEFORE}{name}(?:[-_. ]?(?:sub)?keys?|ring)?\.(?:gpg|pgp|asc)", literal, is_file=True)
    for name, literal in (("sec(?:ret)?", "sec"), ("priv(?:ate)?", "priv"))
)
#: Endings of text and settings, in which people keep what a name says.
_TEXT = r"(?:\.(?:txt|text|csv|json|ya?ml|toml|ini|cfg|conf|properties))?"
#: Services and purposes of tokens. `vocab/token.txt` and the files of a tokenizer hold no secret.
_OF_TOKENS = (
    "access|api|auth|oauth2?|bearer|refresh|session|jwt|bot|personal|hf|hugging[-_]?face|hub|wandb|kaggle|openai"
    "|gh|git|github|gitlab|vault|pypi|npm|docker|slack|telegram|discord|aws|jupyter|jupyterhub"
)
#: Services and purposes of keys. `answer_key.json` and `primary_keys.csv` hold no secret.
_OF_KEYS = (
    "access|secret|openai|anthropic|wandb|aws|sa|gcp|gcloud|google|gcs|bigquery|firebase|azure|service|ssh|rsa|deploy"
    "|master|signing|encryption"
)
#: Owners of passwords. `common-passwords.txt` is a list for everybody.
_OF_PASSWORDS = "my|our|team|all|saved|chrome|chromium|firefox|edge|safari|browser"
#: Files that name what they hold. `secretary.json` and `secretion.json` hold no secret.
_NAMED: Final[tuple[str | Glob, ...]] = (
    glob_of_names(
        r"[^/]*secret(?!ar[iy]|ase|agog|ion|ed|ing|ive|ome|ory|(?:in|or)[-_.])[^/]*"
        r"\.(?:json|ya?ml|toml)(?:\.(?:txt|j2))?",
        "secret",
    ),
    *(
        glob_of_names(f"{name}{_TEXT}", literal, is_file=True)
        for name, literal in (
            (rf"{_BEFORE}secrets?", "secret"),
            (rf"(?:[^/]*credentials?|{_BEFORE}creds)", "cred"),
            (r"[^/]*api[-_. ]?keys?", "key"),
            (rf"{_BEFORE}(?:{_OF_KEYS})[-_. ]?keys?", "key"),
            (rf"{_BEFORE}key[-_ ]?file", "key"),
            (rf"{_BEFORE}(?:password|passphrase)", "pass"),
            (r"(?:ht|[^/]*[-_. ])passwd", "passwd"),  # etc/passwd is for all to read
            (rf"(?:(?:{_OF_PASSWORDS})[-_. ])?passwords", "passwords"),
            (rf"{_BEFORE}(?:{_OF_TOKENS})[-_. ]?tokens?", "token"),
        )
    ),
    *("*cookie_secret", ".*credentials*", "*accesskeys.csv", "rootkey.csv", "kaggle.json"),
    glob_of_names(r"(?<!vocab/)(?<!vocabulary/)(?<!tokenizer/)token(?:\.txt)?", "token", is_file=True),
    *("key.json", *_EXPORTED),
    *("*firebase-adminsdk*.json", "token.json", "token.pickle", ".*token"),
    glob_of_names(rf"{_BEFORE}service[-_ .]?account[^/]*\.json", "account"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", "*kubeconfig", "private?key/"),
)
#: What programs keep in the home of a user.
_OF_PROGRAMS = (
    *(".netrc*", "_netrc", ".pypirc", "pip.conf", ".npmrc", ".yarnrc*", ".condarc", ".htpasswd", "auth.json"),
    *(".pgpass", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto", "rclone.conf", ".databrickscfg"),
    *(".rclone.conf", ".dockerconfigjson", ".cdsapirc", ".flaskenv", "oauth.json", "cookies.txt"),
    *(
        ".vault-token",
        ".authinfo*",
        "pgpass.conf",
        ".modal.toml",
        ".comet.config",
        "clearml.conf",
        ".dockercfg",
        ".terraformrc",
        "*.tfrc.json",
        ".renviron",
    ),
    *(".*_history", ".rhistory", ".histfile", "jpserver*.json", "nbserver*.json", "jupyter_gq_login.json"),
    *("**/huggingface/token", "**/huggingface/stored_tokens", "**/.huggingface/token"),
    *("**/gh/hosts.yml", "**/pypoetry/auth.toml", "jupyter_server_config.json", "jupyter_notebook_config.json"),
)
#: Folders of programs that keep little else.
SECRET_FOLDERS: Final[tuple[str, ...]] = (
    *(".ssh/", ".aws/", ".azure/", ".gnupg/", ".kube/", ".docker/", ".oci/", ".kaggle/", ".password-store/"),
    *("**/.config/gcloud/", "**/.config/jupyter-gq/", "**/jupyter/runtime/", "**/share/keyrings/"),
    *("**/.config/github-copilot/", "**/.config/doctl/", "**/.config/chromium/", "**/.config/google-chrome/"),
    *(".snowflake/", ".snowsql/", ".dbt/", ".openai/", ".mozilla/"),
)
SECRET_FILES: Final[tuple[str | Glob, ...]] = (*_OF_ENVIRONMENTS, *_KEYS, *_NAMED, *_OF_PROGRAMS, *SECRET_FOLDERS)
#: The ending of an archive, which may also be one of a folder.
_ARCHIVE = r"\.(?:gz|tgz|bz2|tbz2?|xz|txz|lzma|br|zst|lz4|z|zip|7z|rar|tar)"
#: "Copy" in English and other languages, in small letters; of macOS, an accent is a letter of its own.
_COPY = "(?:copy|kopie|copie|c[oó]\u0301?pia|kopia)"
#: What programs and people add to a name for a copy, before its ending or after it, and what is left over of a file.
_MARKS = (
    # a-Copy1.csv of JupyterLab, "a - Copy.csv" of Windows, "a copy 2.csv" of macOS
    rf"(?: -)?[-_ ]{_COPY} ?\d*",
    rf" ?\((?:(?:\w+\.? )?{_COPY} ?)?\d*\)",  # a(1).csv of browsers, "a (copy).csv" and "a (another copy).csv" of GNOME
    r" \d{1,3}|[-_][1-9]",  # "a 2.csv" of macOS and a-2.csv of Safari
    r"[-_. ](?:bak|bkp?|bkup|backup|old|orig|save|prev|previous|invalid|disabled)[-_.]?\d*",
    r"(?:\.un|\.~\d+)?~",
    r"\.~",
    r"\.\d{1,3}",  # a.csv.1 of wget and of rotated logs
    r"-checkpoint",  # of Jupyter
    r"\.(?:part\d*|partial|filepart|crdownload|crswap|download|tmp|temp|new)",  # of downloads and of writing
    r"[-_. ]\d{4}-?\d\d-?\d\d",  # a.csv.2026-11-30 of rotated files
    r"(?:(?<=\.json)|(?<=\.pem|\.key|\.pub))\.txt",  # of browsers
    r"\.(?:rpm|dpkg|ucf|pac)-?(?:save|new|old|orig|dist|tmp|bak)",  # of packages of Linux
    # "a (Ann's conflicted copy 2026-11-30 (1)).csv" of Dropbox and Nextcloud, also in other languages
    r" \([^()]*[ck]onfli[ck]?t[^()]*(?:\(\d+\))?\)",
    r"\.sync-conflict-[-0-9a-z]*",  # of Syncthing
    _ARCHIVE,
)
#: One of them at the end of a name. One at a time: a search for several of them could take exponentially long. The
#: letters with which they begin are looked for first, which is quick.
_MARK = re.compile(rf"(?=[-_. (~])(?:{'|'.join(_MARKS)})\Z")
_IS_ARCHIVE = re.compile(rf"{_ARCHIVE}\Z")
#: Most of them that are taken off a name.
_MOST_MARKS = 10
#: What they put around a name, and the ending of a swap file.
_AROUND = re.compile(rf"\A(?:(?:{_COPY} (?:of|von|de) )+|#|\.~)|(?:#|\.sw[a-p])\Z")
#: A name that a program makes while it writes, with a dot before it unless there is one: .a.csv.swp and .a.csv.un~ of
#: editors, .a.csv.tmp, and .a.csv.Xa3bQ9 of rsync.
_WRITTEN = re.compile(r"\A\.(?=.)(.*)\.(?:sw[a-p]|un~|tmp|[a-z0-9]{6})\Z")


def list_originals(path: str) -> list[str]:
    """Return the paths of the files and folders of which a file may be a copy or an archive, by its name.

    `path` is in small letters. The list is empty if the name has no mark of a copy, and no name above it either: in a
    copied folder, the originals lie in the original folder.
    """
    names = path.split("/")
    original = "/".join(map(_find_original, names))
    undotted = "/".join(_find_original(_WRITTEN.sub(r"\1", name)) for name in names)
    if original == undotted == path:
        return []
    folder = [f"{original}/"] if _IS_ARCHIVE.search(path) else []
    return [original, undotted, *folder]


@lru_cache(maxsize=10_000)
def _find_original(name: str) -> str:
    """Return a name of a file or folder without what it has as a copy, also before its ending such as `.json`."""
    name = _AROUND.sub("", name.strip().rstrip(". ")) or name
    for _ in range(_MOST_MARKS):
        stem, dot, ending = name.rpartition(".")
        shorter = _MARK.sub("", name)
        if shorter == name and stem:
            shorter = _MARK.sub("", stem) + dot + ending
        if shorter in ("", name):
            break
        name = shorter
    return name

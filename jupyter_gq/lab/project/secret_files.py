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
    *("credentials", "!credentials/", "credentials.json", "credentials.toml", "credentials.y*ml", "credentials.ini"),
    *(".*credentials*", "application_default_credentials.json", "service?account*.json", "hf_token", "kaggle.json"),
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
    *(".*_history", ".histfile", "jpserver-*.json", "nbserver-*.json", "jupyter_gq_login.json"),
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
#: What programs and people add to the name of a file for its copy: `-Copy1` of JupyterLab, ` (1)` of browsers, `~` and
#: `.name.swp` of editors, `.bak`.
_OF_COPIES = re.compile(
    r"(?:[-_ ]copy ?\d*| \(\d+\)|[-_. ](?:bak|backup|old|orig|save)\d*)(?=\.\w+$|$)"
    r"|~$|(?:^|(?<=/))\.(?=[^/]*\.sw[a-p]$)|\.sw[a-p]$"
)


def name_original(path: str) -> str:
    """Return the path of the file whose copy has this path, by its name; the path itself if that is no copy's."""
    return _OF_COPIES.sub("", path)

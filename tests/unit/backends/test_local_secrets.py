"""The service learns which secrets a user has stored on this machine, and nothing more."""

import os
from pathlib import Path

from jupyter_gq.backends.local.accounts import UnixAccounts
from jupyter_gq.backends.local.secrets import LocalSecrets
from jupyter_gq.client.environment.user_secrets import write_secret


def test_secrets_are_looked_for_in_the_home_of_the_server(tmp_path):
    write_secret(str(tmp_path), "HF_TOKEN", "hunter2")
    secrets = LocalSecrets(UnixAccounts(system_users=False))
    assert secrets.find_missing("ann", str(tmp_path), ["HF_TOKEN", "GONE", "../HF_TOKEN"]) == ["GONE", "../HF_TOKEN"]


def test_without_a_home_of_the_server_that_of_the_account_counts(monkeypatch):
    secrets = LocalSecrets(UnixAccounts(system_users=False))
    home = Path(os.path.expanduser("~"))
    stored = (home / ".config/jupyter-gq/secrets/NOT_THERE").exists()
    assert secrets.find_missing("ann", "relative", ["NOT_THERE"]) == ([] if stored else ["NOT_THERE"])

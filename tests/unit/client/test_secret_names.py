"""Variables that may hold a secret are told from others by name and value."""

import pytest

from jupyter_gq.client.environment.secret_names import holds_secret, is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENAIKEY", "GITHUB_PAT"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "PGPASSWORD", "MYSQL_PWD", "SESSION_COOKIE", "DB_PASS", "hf_token"),
        *("BASIC_AUTH", "KEY", "SSH_PASSPHRASE", "HF_TOKENS"),
    ],
)
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "MAX_TOKENS", "MAX_NEW_TOKENS", "KEYBOARD", "PWD", "OLDPWD", "PATH", "PATIENCE"),
        *("AUTHOR", "COMPASS", "HTTP_PROXY", "LD_LIBRARY_PATH", "SSH_AUTH_SOCK", "BYPASS_CACHE", "EPOCHS"),
    ],
)
def test_names_of_other_variables(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("http://ann:hunter2@proxy:3128", True),
        ("postgresql://:hunter2@db/digits", True),
        ("http://proxy:3128", False),
        ("http://ann@proxy:3128/a:b@c", False),
        ("/a:b@c", False),
    ],
)
def test_an_address_with_a_password_is_a_secret(value, secret):
    assert holds_secret("HTTPS_PROXY", value) is secret

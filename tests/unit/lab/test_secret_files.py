"""Files that may hold secrets stay, and so do their copies; a note names a line that lets one go along."""

import ast
from pathlib import Path

import pytest

from jupyter_gq.lab.clock import monotonic
from jupyter_gq.lab.project.ignored import IGNORE_FILE, Ignored
from jupyter_gq.lab.project.needed import Caps, Code, Needed, find_needed
from jupyter_gq.lab.project.plan import Project
from jupyter_gq.lab.project.secret_files import list_originals
from tests.patience import scaled

CAPS = Caps(file=1000, job=20_000)


def write(folder: Path, path: str, content: str = "") -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def find(folder: Path, *patterns: str) -> Needed:
    return find_needed(folder, Code(), patterns, CAPS)


@pytest.mark.parametrize(
    "lines",
    [
        "*\n!*.json\n!*.txt\n",
        "/data/*\n!/data/*.csv\n",
        "!r*\n",
        "!k?ggle.json\n",
        "!*[]a-z]*\n",
        "!**/*[]a]*\n",
        "!t* \n",
    ],
)
def test_a_line_with_a_star_in_its_last_name_lets_no_secret_go_along(tmp_path, lines):
    secrets = ["data/credentials.csv", "kaggle.json", "rclone.conf", "token.txt"]
    for path in secrets:
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, lines)
    assert find(tmp_path, *secrets).going == {}
    rules = Ignored(str(tmp_path), [*lines.split("\n"), "!**/kaggle.json", "!da*a/credentials.csv", "!\\token.txt"])
    assert list(filter(rules.is_secret, secrets)) == ["rclone.conf"]


@pytest.mark.parametrize(
    ("lines", "secrets"),
    [
        ("!.env\n*.env", [".env"]),
        ("!.env\n.env", [".env"]),
        ("!.env\n.*", [".env"]),
        ("!.env\n*.env\n!*.env", [".env"]),
        ("!.env\n!conf/\n*.env", [".env"]),
        ("*.env\n!.env", []),
        ("!.env\n*.env\n!.ENV", []),
        ("!.env\n*.csv", []),
        ("!.env\n/conf/*.env", []),
        ("*.csv\ndata.csv", [".env"]),
    ],
)
def test_of_the_lines_that_name_a_secret_the_last_one_counts(tmp_path, lines, secrets):
    for path in (".env", "data.csv"):
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, f"{lines}\n")
    needed = find(tmp_path, ".env", "data.csv")
    assert needed.secrets == secrets
    assert (".env" in needed.going) is not bool(secrets)


def test_a_later_line_keeps_what_a_line_for_its_folder_lets_go(tmp_path):
    for path in (".aws/notes.txt", ".aws/config.toml", "data/notes.txt"):
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, "!.aws/\n*.txt\n")
    needed = find(tmp_path, ".aws/", "data/")
    assert (sorted(needed.going), needed.secrets) == ([".aws/config.toml", "data/notes.txt"], [".aws/notes.txt"])


def list_notes(folder: Path, needed: Needed) -> list[str]:
    project = Project(
        folder=folder,
        named=None,
        needed=needed,
        left_out=frozenset(),
        store=None,
        caps=CAPS,
        is_live=False,
        needs_live="",
    )
    return project.describe().pattern_notes


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            "run[1].pem",
            "sub [x]/.env",
            "server.key ",
            "server.key  ",
            "sub /a.key",
            "a{1,2}.pem",
            "a\\b.pem",
            " a.key",
        ),
        *("#a.key", "!a.key", "a*?.key", "~/a.key", "\\{a,b}.key", "[[:alpha:]].key", "[]]a.key", "é !#.key", "a]{.p8"),
    ],
)
def test_the_note_on_a_secret_has_a_line_that_lets_it_go_along(tmp_path, path):
    write(tmp_path, path)
    code = Code(trees=[ast.parse(f"open({'./' + path!r})")])
    (note,) = list_notes(tmp_path, find_needed(tmp_path, code, (), CAPS))
    begin, end = (
        f"What may hold secrets stays, such as {path}: the line ",
        " at the end of .jupyter-gq-ignore lets the job take it",
    )
    assert note.startswith(f"{begin}!")
    assert note.endswith(f"{end} along all the same.")
    line = note.removeprefix(begin).removesuffix(f"{end} along all the same.")
    write(tmp_path, IGNORE_FILE, f"*.key\n.env\n{line}\n")
    needed = find_needed(tmp_path, code, (), CAPS)
    assert (list(needed.going), list_notes(tmp_path, needed)) == ([path], [])


@pytest.mark.parametrize("path", ["a\nb.key", "\tb.key"])
def test_the_note_on_a_secret_has_no_line_if_none_can_name_it(tmp_path, path):
    needed = Needed(secrets=[path])
    assert list_notes(tmp_path, needed) == [
        f"What may hold secrets stays, such as {path!r}; no line in .jupyter-gq-ignore can name it."
    ]


def test_a_link_to_a_secret_names_the_secret(tmp_path):
    write(tmp_path, ".env")
    (tmp_path / "settings").symlink_to(".env")
    assert find(tmp_path, "settings").secrets == [".env"]
    write(tmp_path, IGNORE_FILE, "!.env\n")
    assert list(find(tmp_path, "settings").going) == ["settings"]


def test_a_package_of_credentials_goes_along_and_no_file_of_that_name(tmp_path):
    for path in ("app/credentials/__init__.py", "app/__init__.py", "old/credentials"):
        write(tmp_path, path)
    needed = find(tmp_path, "app", "old")
    assert (sorted(needed.going), needed.secrets) == (
        ["app/__init__.py", "app/credentials/__init__.py"],
        ["old/credentials"],
    )


@pytest.mark.parametrize(
    "path",
    [
        *("credentials-Copy1.json", "server.key~", "server.key.bak", "id_rsa (1)", "old/credentials (2).json"),
        *("gcp-credentials.json", "ann_accessKeys.csv", "credentials (1).csv"),
        *("token copy.json", ".server.pem.swp", ".hf_token", "terraform.tfstate", "terraform.tfstate.backup"),
        *("prod.env~", ".env.py", "credentials - Copy (2).json", "kaggle(1).json", "credentials (another copy).json"),
        *("Copy of token.json", "server.key.bak~", "server.key.~1~", "conf/#server.key#", ".pypirc.swp"),
        *("kaggle-Copy1 (1).json", "server.key.bak.1", "copy of .netrc", ".token.json.swp"),
        *("kaggle 2.json", "credentials 2", "kaggle.json.1", "kaggle.json.part", "kaggle.json.tmp"),
        *("kaggle.json.crdownload", ".netrc.rpmsave", ".netrc.rpmnew", ".npmrc.dpkg-old", ".npmrc.dpkg-dist"),
        *(
            "pip.conf.ucf-old",
            "pip.conf.ucf-dist",
            "kaggle (Ann's conflicted copy 2026-11-30).json",
        ),
        *("kaggle.sync-conflict-20261130-101010-ABCDEFG.json", "kaggle-checkpoint.json", "kaggle - Kopie.json"),
        *("kaggle.json.gz", "credentials.tar.gz", "backup/.aws.zip", ".kaggle.json.un~", "kaggle (1).json.1.gz"),
        *("kaggle.json.20261130", "kaggle (Konfliktkopie von Ann (1)).json", "kaggle.json.txt", "kaggle.json."),
        *(".~kaggle.json", "kaggle.json.invalid", "kaggle.json.prev", "kaggle.json.disabled", "kaggle (Kopie).json"),
        *("kaggle (copie).json", "kaggle (copia).json", "kaggle (c\u00f3pia 2).json", "kaggle - Co\u0301pia.json"),
        *("Kopie von kaggle.json", "Copie de kaggle.json", "Copia de kaggle.json", ".kaggle.json.tmp", "kaggle.json.~"),
        *(".kaggle.json.Xa3bQ9", "..netrc.Xa3bQ9", ".server.key.a1b2c3", "kaggle.json.br", "kaggle.json.lzma"),
        *("keys/.aws.tbz2", "keys/.aws.txz", "kaggle (3. Kopie).json", ".env.Xa3bQ9"),
        *("kaggle-1.json", "kaggle_2.json", "credentials-1.json", ".env-2", "id_rsa_1", "password-1.txt", "token-3"),
        *("prod-Copy1.env", ".env.local.bak", "prod.env.1", ".env.production~", "id_rsa_github.old"),
    ],
)
def test_a_copy_of_a_secret_stays_as_the_secret_does(tmp_path, path):
    write(tmp_path, path)
    needed = find(tmp_path, path)
    assert (list(needed.going), needed.secrets) == ([], [path])
    write(tmp_path, IGNORE_FILE, f"!{path}\n")
    assert list(find(tmp_path, path).going) == [path]


def test_a_line_for_a_secret_lets_no_copy_go_along(tmp_path):
    going, staying = [".env", "data/.env", "kaggle.json"], [".env.bak", "data 2/.env", "kaggle.json.part"]
    for path in (*going, *staying):
        write(tmp_path, path)
    write(tmp_path, IGNORE_FILE, "!/.env\n!/data/.env\n!kaggle.json\n")
    needed = find(tmp_path, ".env*", "data/.env", "data 2/.env", "kaggle*")
    assert (sorted(needed.going), sorted(needed.secrets)) == (going, staying)


def test_a_name_with_many_marks_of_copies_is_judged_at_once():
    """A search for all of them together took exponentially long, on a name that a clone of a repository may bring."""
    name = "-copy (copy)" * 20
    assert list_originals(f"{name}(x") == []
    assert list_originals("~" * 250 + "/server.key.bak~") == ["~" * 240 + "/server.key"] * 2


MARKS = ("-copy", " (copy)", "(1)", " 2", ".bak", ".1", "~", ".~1~", ".part", ".sync-conflict-", " (conflict", ".gz")


def test_the_time_for_a_name_grows_at_most_with_the_square_of_its_length():
    names = [
        f"{begin}{(each * 250)[:240]}{end}"
        for each in (*MARKS, ".env", ".a3b3c3", "copia de ", "(a kopie)", "secret", "#", "copy of ", " ", "[")
        for begin in ("", " (", ".")
        for end in ("", "x", ")", "~", ".json")
    ]
    rules = Ignored("/data")
    begin = monotonic()
    for name in names:
        rules.is_secret(name)
        rules.is_secret("/".join([name] * 3))
    assert monotonic() - begin < scaled(10)


def test_a_line_for_a_folder_lets_no_copy_of_a_secret_in_it_go_along(tmp_path):
    paths = [*("conf/a.key", "conf/a.key~", "conf/a.key.bak"), ".aws/credentials~", "app/credentials/a.key~"]
    for path in [*paths, "conf/a.yaml", "app/credentials/a.py", ".ssh-old/deploy"]:
        write(tmp_path, path)
    assert find(tmp_path, ".ssh-old/").secrets == [".ssh-old/"]
    write(tmp_path, IGNORE_FILE, "!conf/\n!.aws/\n!conf/a.key.bak\n!.ssh-old/\n")
    needed = find(tmp_path, "conf/", ".aws/", "app/", ".ssh-old/")
    assert sorted(needed.going) == [".ssh-old/deploy", "app/credentials/a.py", "conf/a.key.bak", "conf/a.yaml"]
    assert sorted(needed.secrets) == sorted(set(paths) - {"conf/a.key.bak"})


def test_code_with_a_name_like_that_of_a_secret_goes_along(tmp_path):
    names = [
        *(" (1)", "#", "data (2024).csv", "my.env.ipynb", "my.env.py", "secrets_old.py", "tokenizer.json", "~"),
        *("gym.env.yaml", "gym.env.csv", "x.env.R", "x.env.npz", "x.env.npz.gz", "my.env.py~", "atari.env/maze.py"),
        *("id_rsa_study.csv", "id_rsa.pub", "id_rsa.pub.bak", "secretary.json", "secretion.yaml", "train 2.csv"),
        *("cacert.pem", "certs/public.pem", "public_key.pem", "id_rsa.pub.txt", "secretase.json", "secretin.yaml"),
        *("beta_secretase.toml", "secretagogue.json", "secretor.json", "serviceXaccount.json", "vocab/token.txt"),
        *(f"x.env.{end}" for end in ("tfrecord", "gguf", "msgpack", "lmdb", "bin", "xlsx", "tif", "tiff", "webp")),
        *(f"x.env.{end}" for end in ("tsx", "css", "lua", "log", "hdf")),
        *("tokens.json", "tokenizer_config.json", "special_tokens_map.json", "bos_token.txt"),
        *("added_tokens.json", "api_token.py", "kubeconfig.py", "private_key.py", "secret_garden.txt", "secrets.py"),
        *("api_key.py", "credentials.py", "covid_rsa", "old_id_rsa.pub", "id_rsa.md", "key.txt", "secrets/a.py"),
        *(
            "keyword.json",
            "keypoints.json",
            "keys.json",
            "monkey.json",
            "answer_key.json",
            "primary-key.json",
            "key.csv",
        ),
        *("passengers.csv", "bypass.txt", "compass.json", "password_strength.csv", "10k-passwords.txt", "passwd"),
        *("common-passwords.txt", "passwords.parquet", "password.py", "passwords/train.csv", "password_reset.html"),
        *("token/a.txt", "vocab/token", "tokens.txt", "token.py", "token.parquet", "kaggle-1.csv", "kaggle-2019.json"),
        *("dem.asc", "data/grid.asc", "sha256sums.asc", "public.asc", "pubring.gpg", "data.tar.gpg", "parsec.asc"),
        *("keyfile.py", "gcp-keypoints.json", "htpasswd.py", "rsa_key.pub", "ssh_key.py", "private.py", "train-1.csv"),
        *("hf_tokenizer.json", "model.ckpt.1", "data.csv.gz", "prod.env.example", "net-checkpoint.pt", "id_rsa/a.py"),
    ]
    for name in names:
        write(tmp_path, name)
    assert sorted(find(tmp_path, "*").going) == sorted(names)
    for name in (".env.example", ".env.template", ".env.sample", ".env.local.example", ".env.dist", ".env.example~"):
        write(tmp_path, name)
        assert list(find(tmp_path, name).going) == [name]


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".env.local", ".env.production", "prod.env", "prod.env.eu", "prod.env.txt", ".env.json", ".envrc"),
        *(".aws 2/config", ".ssh (1)/deploy", "token.json "),
        *(".env.d/x.env.py", ".env.d/id_rsa.pub", ".aws/gym.env.csv", ".ssh/id_rsa.pub", "id_rsa_github", "id_rsa.txt"),
        *(
            "hf_token.txt",
            "rootkey.csv",
            "vault-token",
            "private_key",
            "token.txt",
            "wandb_api_key.txt",
            "client_secret_1.json",
            "secretkey.json",
            "x/mysecret.yml",
        ),
        *("kubeconfig.yaml", "kubeconfig-prod", "prod.kubeconfig", "prj-firebase-adminsdk-x1.json", "AuthKey_A1.p8"),
        *("new_user_credentials.csv", "gcp-credentials.yaml", "my_credentials", "credentials.txt", "credentials.ini"),
        *("terraform.tfvars.json", "serviceaccount.json", "google-service-account.json", "service_account-key.json"),
        *("private_key.json", "private_key.txt", "my-private-key.pk8", "secrets.txt", "secrets.properties", "secret"),
        *("secrets.yaml.j2", "secret.yaml.txt", "client_secret.txt", "api_key", "api_keys.txt", "my_api_key.json"),
        *("openai_key.txt", "secret_key.txt", "access_token", "access_token.txt", "github_token.txt", "my_auth_token"),
        *("vault_token", "huggingface-token.txt", "old_id_rsa", "github_id_rsa", "deploy-id_ed25519", "x_id_dsa.bak"),
        *("id_rsa.c", "id_rsa.h", "id_rsa.r", "id_rsa.m", "id_rsa.json", "id_ecdsa.yaml"),
        *("creds.json", "gcp-creds.json", "secretinfo.json", "id_rsa.bin", "prod.env.sh", "server.pem.txt"),
        *("password.txt", "passwords.txt", "password", "my_passwords.txt", "Chrome Passwords.csv", "db-password.json"),
        *(".passwd", "htpasswd", ".htpasswd", "passphrase.txt", "token", "conf/token", "key.json", "keyfile.json"),
        *("gcp-key.json", "gcp_key.json", "my-google-key.json", "service_key.json", "mongo-keyfile", "deploy_key"),
        *("ssh_key.txt", "rsa_key", "privkey", "privkey.json", "secring.gpg", "private.asc", "ann-secret-key.asc"),
        *("secret.gpg", "private_subkeys.asc", "ann.private.asc", ".authinfo.gpg", "pgpass.conf", "azure-keys.json"),
        *(".aws/cacert.pem", ".aws/vocab/token.txt", "my_cacert.pem", "public.key", "cacert.pem/server.key"),
        *("secretary-secret.json", "secretary.env", "secretary.key", "credentials.env", "Secret.ENV.yaml"),
    ],
)
def test_names_of_secrets_stay_beside_such_code(tmp_path, path):
    write(tmp_path, path)
    assert find(tmp_path, path, "*", ".*").going == {}
    assert Ignored(str(tmp_path)).is_secret(path)

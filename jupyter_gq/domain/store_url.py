"""The URL of a store that fsspec supports, as a setting may hold it: without credentials, and of a place that lasts.

Settings are stored with the last good policy, named in the audit log and shown to administrators. Credentials belong
into the environment of the service.

See docs/decisions/0420-refuse-credentials-in-the-url-of-large-files.md
and docs/decisions/0465-refuse-urls-at-which-files-are-lost.md.
"""

import re
from urllib.parse import urlsplit

#: Kinds of URLs with a host, which may have a port.
_WITH_HOST = frozenset({"arrow_hdfs", "ftp", "hdfs", "root", "sftp", "smb", "ssh", "webhdfs"})
#: Kinds of URLs in which a name before "@" is that of a container, a bucket or an account, and no secret.
_NAMED = _WITH_HOST | {"abfs", "abfss", "adl", "az", "oci", "wasb", "wasbs"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]*")


def explain_secret_in_url(url: str) -> str:
    """Return a phrase that names the part of a URL that may be secret, such as 'credentials before "@"'.

    The phrase shows nothing of the URL. Returns "" if no part may be secret. A chained URL, such as
    `simplecache::s3://bucket`, is examined link by link, and the first finding is returned. A name before "@" without a
    password is accepted only for kinds of URLs in which that name is no secret, such as `sftp://ann@host`.
    """
    return next(filter(None, map(_explain_part, url.split("::"))), "")


def _explain_part(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return ""
    if "?" in rest:
        return 'options after "?", which may hold a key'
    # The keys of S3 may contain a slash, so the end of the host does not end them.
    before, at, _ = rest.partition("@")
    if at and not rest.startswith("/") and (":" in before or ("/" not in before and scheme.lower() not in _NAMED)):
        return 'credentials before "@"'
    return ""


def explain_fault_in_url(url: str) -> str:
    """Return a phrase that says why the text of a URL names no place that lasts, such as "is no URL"; "" if it may.

    The phrase shows nothing of the URL. Whether there is such a place is not asked. A URL without a host is accepted:
    fsspec may have the host from a variable of the service, such as FSSPEC_SFTP_HOST.
    """
    scheme, separator, rest = url.partition("://")
    faults = {
        # A cache gives back what is gone from the store, and the claim of an earlier owner.
        'has "::", and a cache or an archive in front of a store loses files': "::" in url,
        "is no URL": not separator or _SCHEME.fullmatch(scheme) is None,
        "names the memory of one program, which ends with it": scheme == "memory",
        "ends with a blank or has a character that cannot be printed": url != url.rstrip() or not url.isprintable(),
        "names no bucket and no folder": not rest.strip("/"),
        'has "." or ".." as a folder': not {".", ".."}.isdisjoint(rest.split("/")),
        "has a relative path; write three slashes, as in file:///folder": scheme in ("file", "local")
        and not rest.startswith("/"),
        "has a host or a port that cannot be used": scheme in _WITH_HOST and not _has_usable_port(url),
    }
    return next((told for told, is_so in faults.items() if is_so), "")


def _has_usable_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False

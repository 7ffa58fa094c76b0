"""Keys of the control plane: of service-account tokens, and an authority for users of any name and group."""

import datetime
import itertools
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def _pem(key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def write_service_account_keys(folder: Path) -> None:
    """`sa.key` signs the tokens of service accounts, `sa.pub` checks them."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(_pem(key))
    (folder / "sa.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


class Authority:
    """Says who somebody is: the API server takes the common name for the user, organisations for the groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate_file = folder / "clients.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients of the tests")])
        self._number = itertools.count(1)
        ca = self._signed(self._name, self._key.public_key(), authority=True)
        self.certificate_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))

    def user(self, name: str, groups=()) -> tuple[Path, Path]:
        """Files with a certificate of this user and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        stem = self.folder / f"client-{next(self._number)}"
        certificate = self._signed(subject, key.public_key(), authority=False)
        stem.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        stem.with_suffix(".key").write_bytes(_pem(key))
        return stem.with_suffix(".crt"), stem.with_suffix(".key")

    def _signed(self, subject, public_key, *, authority: bool):
        now = datetime.datetime.now(datetime.UTC)  # noqa: TID251 - real programs look at the dates
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(self._key, hashes.SHA256())

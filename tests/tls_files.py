"""Certificates for tests of TLS."""

import ssl
from pathlib import Path
from typing import Any

import grpc
import trustme


class Files:
    """One authority, the collector's certificate and a client's, as PEM files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.ca, self.certificate, self.key = folder / "ca", folder / "crt", folder / "key"
        self.client_certificate, self.client_key = folder / "client.crt", folder / "client.key"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        self._write(authority.issue_cert("127.0.0.1", "localhost"), self.certificate, self.key)
        client = authority.issue_cert("application@example.org")
        self._write(client, self.client_certificate, self.client_key)

    def _write(self, leaf: trustme.LeafCert, certificate: Path, key: Path) -> None:
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(key)

    def options(self, *, mutual: bool = False) -> list[str]:
        options = ["--tls-certificate", str(self.certificate), "--tls-key", str(self.key)]
        return [*options, "--tls-client-ca", str(self.ca)] if mutual else options

    def context(self, client: "Files | None" = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if client is not None:
            context.load_cert_chain(client.client_certificate, client.client_key)
        return context

    def credentials(self, client: "Files | None" = None) -> Any:
        if client is None:
            return grpc.ssl_channel_credentials(self.ca.read_bytes())
        return grpc.ssl_channel_credentials(
            self.ca.read_bytes(),
            client.client_key.read_bytes(),
            client.client_certificate.read_bytes(),
        )

    def replace_with(self, other: "Files") -> None:
        """Put the other's files in the place of these, as a certificate renewal does."""
        for mine, new in ((self.key, other.key), (self.certificate, other.certificate)):
            draft = mine.with_suffix(".new")
            draft.write_bytes(new.read_bytes())
            draft.replace(mine)
        self.ca.write_bytes(other.ca.read_bytes())

"""Stores made by Java's own keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import java_tools
from tests.security.tls.certificates import PASSWORD


def keytool(*arguments: str) -> None:
    program = Path(java_tools.java()).resolve().parent / "keytool"
    subprocess.run([program, *arguments], check=True, capture_output=True, timeout=60)


def key_store(
    path: Path, kind: str, key_password: str = PASSWORD, alias: str = "broker", algorithm: str = "EC"
) -> Path:
    """A store with a key, and its certificate, signed by itself, for localhost."""
    keytool(
        *("-genkeypair", "-alias", alias, "-keyalg", algorithm, "-dname", "CN=localhost,O=Muster"),
        *("-ext", "san=dns:localhost,ip:127.0.0.1", "-validity", "3650", "-storetype", kind),
        *("-keystore", str(path), "-storepass", PASSWORD, "-keypass", key_password),
    )
    return path


def trust_store(path: Path, kind: str, *certificates: str) -> Path:
    """A store with certificates alone, given as PEM."""
    for number, certificate in enumerate(certificates):
        file = path.with_suffix(f".{number}.pem")
        file.write_text(certificate)
        keytool(
            *("-importcert", "-noprompt", "-alias", f"ca{number}", "-file", str(file)),
            *("-storetype", kind, "-keystore", str(path), "-storepass", PASSWORD),
        )
    return path

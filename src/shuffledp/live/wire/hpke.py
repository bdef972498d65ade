"""HPKE (RFC 9180) in base mode: X25519, HKDF-SHA256, AES-128-GCM. All of it is `cryptography`'s.

Its interface has no additional data, so whatever a ciphertext must be bound to is in `info`.
"""

from functools import cache
from typing import TYPE_CHECKING

from shuffledp.core.errors import WireError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hpke import Suite

SUITE = 1
"""DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. 2 is reserved for a post-quantum hybrid."""


@cache
def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


@cache
def public_key(raw: bytes) -> "X25519PublicKey":
    """Return the public key of these 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return X25519PublicKey.from_public_bytes(raw)


@cache
def private_key(raw: bytes) -> "X25519PrivateKey":
    """Return the private key of these 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(raw)


def public_bytes(secret: bytes) -> bytes:
    """Return the public half of a private key.

    >>> len(public_bytes(bytes(31) + b"x"))
    32
    """
    return private_key(secret).public_key().public_bytes_raw()


def seal(plain: bytes, public: bytes, info: bytes) -> bytes:
    """Encrypt for the holder of the private key: 32 bytes of encapsulated key, then the ciphertext.

    >>> from shuffledp.core.randomizer import OVERHEAD
    >>> secret = bytes(range(32))
    >>> sealed = seal(b"yes", public_bytes(secret), b"where it belongs")
    >>> len(sealed) == len(b"yes") + OVERHEAD, open_sealed(sealed, secret, b"where it belongs")
    (True, b'yes')
    """
    return bytes(_suite().encrypt(plain, public_key(public), info))


def open_sealed(sealed: bytes, secret: bytes, info: bytes) -> bytes:
    """Open what was sealed for this key and this `info`; raise `WireError` otherwise.

    >>> open_sealed(bytes(60), bytes(range(32)), b"")
    Traceback (most recent call last):
    shuffledp.core.errors.WireError: undecryptable: it was not sealed for this key and place
    """
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(_suite().decrypt(sealed, private_key(secret), info))
    except (InvalidTag, ValueError):
        raise WireError("undecryptable", "it was not sealed for this key and place") from None

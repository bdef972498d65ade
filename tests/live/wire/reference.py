"""HPKE (RFC 9180) once more, from its pages alone: base mode, X25519, HKDF-SHA256, AES-128-GCM, any ephemeral key.

`cryptography` draws the ephemeral key itself, so what it seals cannot be written down beforehand. This can: vectors
are sealed here and opened there, and the other way round.
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM = b"KEM\x00\x20"
SUITE = b"HPKE\x00\x20\x00\x01\x00\x01"


def extract(suite, salt, label, material):
    return hmac.digest(salt, b"HPKE-v1" + suite + label + material, "sha256")


def expand(suite, secret, label, info, length):
    content = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    out, block, number = b"", b"", 1
    while len(out) < length:
        block = hmac.digest(secret, block + content + bytes([number]), "sha256")
        out, number = out + block, number + 1
    return out[:length]


def schedule(dh, encapsulated, public, info):
    """The key and the nonce of a context's first message."""
    shared = expand(
        KEM, extract(KEM, b"", b"eae_prk", dh), b"shared_secret", encapsulated + public, 32
    )
    context = (
        b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    )
    secret = extract(SUITE, shared, b"secret", b"")
    return expand(SUITE, secret, b"key", context, 16), expand(
        SUITE, secret, b"base_nonce", context, 12
    )


def seal(plain, public, info, ephemeral, aad=b""):
    """As `shuffledp.live.wire.report.seal`, with an ephemeral key that is given."""
    key = X25519PrivateKey.from_private_bytes(ephemeral)
    encapsulated = key.public_key().public_bytes_raw()
    dh = key.exchange(X25519PublicKey.from_public_bytes(public))
    secret, nonce = schedule(dh, encapsulated, public, info)
    return encapsulated + AESGCM(secret).encrypt(nonce, plain, aad)


def open_sealed(sealed, private, info, aad=b""):
    """As `shuffledp.live.wire.report.open_sealed`."""
    key = X25519PrivateKey.from_private_bytes(private)
    dh = key.exchange(X25519PublicKey.from_public_bytes(sealed[:32]))
    secret, nonce = schedule(dh, sealed[:32], key.public_key().public_bytes_raw(), info)
    return AESGCM(secret).decrypt(nonce, sealed[32:], aad)


def make_ephemeral(name):
    """A key for vectors: always the same for a name."""
    return hashlib.sha256(f"shuffledp vector {name}".encode()).digest()

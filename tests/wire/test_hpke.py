"""HPKE: the published vector, and two implementations that open what the other seals."""

import pytest

from shuffledp.wire.hpke import OVERHEAD, open_sealed, public_bytes, seal
from wire import reference

# RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, sequence number 0.
INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
EPHEMERAL = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
PRIVATE = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
PUBLIC = bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d")
PLAIN = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
AAD = bytes.fromhex("436f756e742d30")
SEALED = bytes.fromhex(
    "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
)


def test_the_reference_is_that_of_the_rfc():
    assert public_bytes(PRIVATE) == PUBLIC
    assert reference.seal(PLAIN, PUBLIC, INFO, EPHEMERAL, AAD) == SEALED
    assert reference.open_sealed(SEALED, PRIVATE, INFO, AAD) == PLAIN


@pytest.mark.parametrize("size", [0, 1, 2, 50, 1000])
def test_each_opens_what_the_other_seals(size):
    plain = bytes(range(256)) * 4
    plain = plain[:size]
    there = reference.seal(plain, PUBLIC, INFO, reference.make_ephemeral(str(size)))
    assert open_sealed(there, PRIVATE, INFO) == plain
    here = seal(plain, PUBLIC, INFO)
    assert len(here) == len(there) == size + OVERHEAD
    assert reference.open_sealed(here, PRIVATE, INFO) == plain

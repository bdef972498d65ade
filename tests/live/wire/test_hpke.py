"""HPKE: the published vector, and implementations that open what the others seal."""

import json

import pytest

from live.wire import reference
from live.wire.vectors import FOLDER
from shuffledp.core.errors import WireError
from shuffledp.core.randomizer import OVERHEAD
from shuffledp.live.wire.report import open_sealed, public_bytes, seal

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


@pytest.fixture
def pyhpke():
    return pytest.importorskip("pyhpke", reason="no pyhpke: HPKE is not compared with it here")


def their_suite():
    import pyhpke

    ids = pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256, pyhpke.KDFId.HKDF_SHA256, pyhpke.AEADId.AES128_GCM
    return pyhpke.CipherSuite.new(*ids)


def seal_there(plain, public, info):
    suite = their_suite()
    encapsulated, sender = suite.create_sender_context(
        suite.kem.deserialize_public_key(public), info
    )
    return encapsulated + sender.seal(plain)


def open_there(sealed, private, info):
    suite = their_suite()
    key = suite.kem.deserialize_private_key(private)
    return suite.create_recipient_context(sealed[:32], key, info).open(sealed[32:])


@pytest.mark.parametrize("size", [0, 1, 50, 1000])
def test_pyhpke_opens_what_we_seal_and_seals_what_we_open(pyhpke, size):
    plain = bytes(range(256)) * 4
    plain = plain[:size]
    assert open_there(seal(plain, PUBLIC, INFO), PRIVATE, INFO) == plain
    there = seal_there(plain, PUBLIC, INFO)
    assert open_sealed(there, PRIVATE, INFO) == plain
    with pytest.raises(WireError, match="undecryptable"):
        open_sealed(there, PRIVATE, INFO + b"!")
    with pytest.raises(pyhpke.OpenError):
        open_there(seal(plain, PUBLIC, INFO), PRIVATE, INFO + b"!")


def test_pyhpke_opens_the_vectors_layer_by_layer(pyhpke):
    case = json.loads((FOLDER / "report.json").read_text(encoding="utf-8"))
    identity, sealed = bytes.fromhex(case["collection_id"]), bytes.fromhex(case["report"])
    # The bytes of COLLECTION section 4, spelled out: nothing of ours takes part.
    info = b"shuffledp/1 outer\0" + sealed[:2] + identity
    outer = open_there(sealed[2:], bytes.fromhex(case["secrets"]["shuffler"]), info)
    assert outer == bytes.fromhex("00000001" + "".join(case["inners"]))
    info = b"shuffledp/1 inner\0\x01" + identity + case["window"].to_bytes(4, "big")
    secret = bytes.fromhex(case["secrets"]["analyzer"])
    found = [open_there(bytes.fromhex(inner), secret, info).hex() for inner in case["inners"]]
    assert found == case["plains"]

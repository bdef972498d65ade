"""Surveys that other machines reach: certificates, addresses, and that one operator is never hidden."""

import datetime
import hashlib
import ipaddress
import re
import ssl
import stat
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import live_support as live
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.live import describe_trust
from shuffledp.live.serve import Desk, Place, http
from shuffledp.live.serve.http import Certificate, bind, choose_certificate, trust
from shuffledp.live.wire import Collection

HOST = "192.0.2.7"


def test_plain_http_is_for_this_machine_alone(tmp_path):
    for host in ("127.0.0.1", "localhost", "::1"):
        assert choose_certificate(host, None, tmp_path) is None
    with pytest.raises(
        ParameterError, match=r"only on pages that come by https.*--tls self"
    ) as told:
        choose_certificate(HOST, None, tmp_path)
    assert told.value.name == "tls"


@pytest.mark.parametrize("host", ["*", "::", "a b", "Survey.example", "", "a/b", "-a"])
def test_an_address_is_one_that_people_can_open(host, tmp_path):
    with pytest.raises(ParameterError, match="by which people reach this machine"):
        choose_certificate(host, "self", tmp_path)


@pytest.mark.parametrize("host", [HOST, "survey.example", "2001:db8::7"])
def test_a_certificate_of_its_own_is_kept_and_private(host, tmp_path):
    found = choose_certificate(host, "self", tmp_path / "tls")
    again = choose_certificate(host, "self", tmp_path / "tls")
    assert (found, found.fingerprint) == (again, again.fingerprint)
    raw = ssl.PEM_cert_to_DER_cert(found.chain.read_text())
    assert found.fingerprint.replace(":", "").lower() == hashlib.sha256(raw).hexdigest()
    assert stat.S_IMODE(found.key.stat().st_mode) == 0o600
    assert Certificate.read(str(found)).fingerprint == found.fingerprint


def test_a_certificate_that_ends_soon_is_made_anew(tmp_path, monkeypatch):
    folder = tmp_path / "tls"
    monkeypatch.setattr(http, "_DAYS", http._RENEWED - 1)
    old = choose_certificate(HOST, "self", folder).fingerprint
    monkeypatch.undo()
    new = choose_certificate(HOST, "self", folder).fingerprint
    assert new != old
    assert choose_certificate(HOST, "self", folder).fingerprint == new


def test_only_the_certificates_that_were_named_are_trusted(tmp_path, monkeypatch):
    """Not those of the environment: whoever sets a variable there could read what is sent."""
    foreign = choose_certificate(HOST, "self", tmp_path / "tls")
    usual = http._trust.__wrapped__("").cert_store_stats()
    monkeypatch.setenv("SSL_CERT_FILE", str(foreign.chain))
    assert http._trust.__wrapped__("").cert_store_stats() == usual
    named = http._trust.__wrapped__(foreign.chain.read_text())
    assert named.cert_store_stats()["x509"] == usual["x509"] + 1
    assert named.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


def test_a_key_of_another_certificate_is_refused(tmp_path):
    one = choose_certificate(HOST, "self", tmp_path / "tls")
    other = choose_certificate("survey.example", "self", tmp_path / "tls")
    for text in (f"{one.chain},{other.key}", str(one.chain), f"{one.chain},{tmp_path / 'no'}"):
        with pytest.raises(ParameterError, match="must be CERT,KEY"):
            choose_certificate(HOST, text, tmp_path)


def shake(certificate, name, context):
    """A handshake in memory; what the client calls the server is what it must be."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate.chain, certificate.key)
    pipes = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    client = context.wrap_bio(pipes[0], pipes[1], server_hostname=name)
    sides = client, server.wrap_bio(pipes[1], pipes[0], server_side=True)
    for _ in range(8):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return client.version()


def test_the_certificate_is_trusted_for_its_host_alone_and_by_nobody_else(tmp_path):
    found = choose_certificate(HOST, "self", tmp_path / "tls")
    assert shake(found, HOST, trust(found)) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake(found, "192.0.2.8", trust(found))
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        shake(found, HOST, ssl.create_default_context())
    named = choose_certificate("survey.example", "self", tmp_path / "tls")
    assert shake(named, "survey.example", trust(named)) == "TLSv1.3"


def test_addresses_say_that_one_operator_plays_all_roles(tmp_path):
    place = Place(host=HOST, certificate=choose_certificate(HOST, "self", tmp_path / "tls"))
    assert place.locate_shuffler(8443) == f"https://{HOST}:8443/one-operator"
    assert Place(host="::1").locate(80) == "http://[::1]:80"
    told = "one operator plays all roles here"
    for url, expected in {
        place.locate_shuffler(8443): True,
        Place().locate_shuffler(8000): True,
        "https://survey.example": False,
        "https://survey.example/one-operator/": None,
    }.items():
        if expected is None:
            with pytest.raises(Exception, match="slash at the end"):
                live.make_collection(url=url)
            continue
        collection = live.make_collection(url=url)
        assert collection.development is expected
        assert (told in dict(describe_trust(collection))) is expected


@pytest.mark.parametrize("url", [f"https://{HOST}:8443/one-operator", "https://survey.example"])
def test_a_survey_of_another_address_is_not_served(url):
    with pytest.raises(UnsupportedError, match="--host and --tls that it was made with"):
        Place().check(live.make_collection(url=url))


def test_the_desk_makes_surveys_for_its_place(tmp_path):
    host = "127.0.0.2"
    place = Place(host=host, certificate=choose_certificate(host, "self", tmp_path / "tls"))
    desk = Desk(tmp_path / "surveys", place=place)
    survey = {"epsilon": 1.0, "delta": 1e-8, "questions": {"home": {"task": "count"}}}
    draft = desk.preview({**survey, "collection": {"people": 300}})["draft"]
    made = Collection.read(desk.document(draft))
    assert re.fullmatch(rf"https://{host}:[0-9]+/one-operator", made.url)
    place.check(made)
    taken = bind(host, int(made.url.split(":")[2].partition("/")[0]))
    with taken, pytest.raises(UnsupportedError, match="people find this survey, cannot be used"):
        place.check(made)


def test_what_a_certificate_of_ours_says(tmp_path):
    """Browsers refuse certificates that are good for too long, that may sign others, or that are not for servers."""
    now = datetime.datetime.now(datetime.UTC)
    for host, names in {
        HOST: [x509.IPAddress(ipaddress.ip_address(HOST))],
        "2001:db8::7": [x509.IPAddress(ipaddress.ip_address("2001:db8::7"))],
        "survey.example": [x509.DNSName("survey.example")],
    }.items():
        found = choose_certificate(host, "self", tmp_path / "tls")
        assert found.chain.name == f"{host.replace(':', '_')}.pem"
        assert (found.own, Certificate.read(str(found)).own) == (True, False)
        made = x509.load_pem_x509_certificate(found.chain.read_bytes())
        day = datetime.timedelta(days=1)
        minute = datetime.timedelta(minutes=2)
        assert abs(now - day - made.not_valid_before_utc) < minute
        assert abs(now + 365 * day - made.not_valid_after_utc) < minute
        assert made.subject == made.issuer
        (name,) = made.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        assert name.value == "shuffledp serve"
        said = {type(each.value): (each.value, each.critical) for each in made.extensions}
        assert said.pop(x509.SubjectAlternativeName) == (x509.SubjectAlternativeName(names), False)
        basic, critical = said.pop(x509.BasicConstraints)
        assert (basic.ca, basic.path_length, critical) == (False, None, True)
        usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
        assert said.pop(x509.ExtendedKeyUsage) == (usage, False)
        identifier = x509.SubjectKeyIdentifier.from_public_key(made.public_key())
        assert said == {x509.SubjectKeyIdentifier: (identifier, False)}
        key = serialization.load_pem_private_key(found.key.read_bytes(), None)
        assert key.public_key() == made.public_key()
        assert key.curve.name == "secp256r1"
        assert b"BEGIN PRIVATE KEY" in found.key.read_bytes()
        made.verify_directly_issued_by(made)


@pytest.mark.parametrize(("days", "kept"), [(15, True), (14, False), (13, False)])
def test_a_certificate_is_made_anew_in_its_last_two_weeks(tmp_path, monkeypatch, days, kept):
    folder = tmp_path / "tls"
    monkeypatch.setattr(http, "_DAYS", days)
    old = choose_certificate(HOST, "self", folder).fingerprint
    monkeypatch.undo()
    assert (choose_certificate(HOST, "self", folder).fingerprint == old) is kept
    (folder / f"{HOST}.key").unlink()
    assert choose_certificate(HOST, "self", folder).fingerprint != old


def test_a_key_of_ours_that_others_may_read_is_not_used(tmp_path):
    choose_certificate(HOST, "self", tmp_path / "tls").key.chmod(0o644)
    with pytest.raises(DataError, match="may be read by others"):
        choose_certificate(HOST, "self", tmp_path / "tls")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*", "Survey.example", ""])  # noqa: S104
def test_an_address_of_everybody_is_none(host, tmp_path):
    said = f"host={host!r} must be the one address or name, in small letters, by which people reach this machine"
    for tls in ("self", None):
        with pytest.raises(ParameterError) as told:
            choose_certificate(host, tls, tmp_path)
        assert str(told.value) == said

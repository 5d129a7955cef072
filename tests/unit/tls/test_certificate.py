"""What is wrong with certificate files is said by key and file, with what to do."""

from datetime import UTC, datetime, timedelta

import pytest
from harness.certificates import DAY, Authority, SecretVolume
from tiermesh.shared.config import ConfigError
from tiermesh.shared.testing import FakeClock
from tiermesh.shared.tls import Identity, Pem
from tiermesh.shared.tls.certificate import CertificateFlaw, examine
from tiermesh.shared.tls.files import CertificateFiles, FollowedFiles

NAME = "tiermesh-router.mesh.svc"
ROUTER = Identity("dns", NAME)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def flaw(pem: Pem, *, identity: Identity | None = ROUTER) -> CertificateFlaw:
    with pytest.raises(CertificateFlaw) as caught:
        examine(pem, now(), identity=identity)
    return caught.value


def test_sound_files_tell_their_names_and_how_long_they_last(authority):
    facts = examine(authority.pem_for(NAME, "spiffe://mesh/router"), now(), identity=ROUTER)
    assert set(facts.names) == {ROUTER, Identity("uri", "spiffe://mesh/router")}
    assert 89 < facts.days_left(now()) <= 90
    assert facts.is_trusted


def test_the_first_end_of_certificate_and_authorities_counts(authority):
    issued = authority.issue(NAME, ends=200 * DAY)
    facts = examine(Pem(issued.pem, issued.key_pem(), authority.pem), now())
    assert 89 < facts.days_left(now()) <= 90
    assert facts.days_left(now() + timedelta(days=91)) < 0


def test_an_intermediate_goes_out_with_the_certificate(authority):
    between = Authority("Between", by=authority)
    issued = between.issue(NAME)
    assert examine(Pem(issued.pem + between.pem, issued.key_pem(), authority.pem), now()).is_trusted
    assert not examine(Pem(issued.pem, issued.key_pem(), authority.pem), now()).is_trusted


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"certificate": b"-----BEGIN"}, "certificate", "holds no certificate in PEM"),
        ({"private_key": b"no key"}, "private_key", "holds no private key in PEM"),
        ({"trusted_ca": b""}, "trusted_ca", "holds no certificate in PEM"),
    ],
)
def test_what_is_no_pem(authority, change, key, says):
    sound = authority.pem_for(NAME)
    values = {name: getattr(sound, name) for name in ("certificate", "private_key", "trusted_ca")}
    found = flaw(Pem(**{**values, **change}))
    assert found.key == key
    assert says in str(found)


def test_the_key_of_another_certificate(authority):
    one, other = authority.issue(NAME), authority.issue(NAME)
    found = flaw(Pem(one.pem, other.key_pem(), authority.pem))
    assert (found.key, "issued together" in str(found)) == ("private_key", True)


def test_a_key_with_a_passphrase(authority):
    one = authority.issue(NAME)
    assert "passphrase" in str(flaw(Pem(one.pem, one.key_pem(b"secret"), authority.pem)))


@pytest.mark.parametrize(
    ("starts", "ends", "says"), [(-2 * DAY, -DAY, "expired "), (DAY, 2 * DAY, "set this machine's clock")]
)
def test_a_certificate_out_of_its_time(authority, starts, ends, says):
    one = authority.issue(NAME, starts=starts, ends=ends)
    found = flaw(Pem(one.pem, one.key_pem(), authority.pem))
    assert found.key == "certificate"
    assert says in str(found)


@pytest.mark.parametrize("names", [(), ("tiermesh-cache.mesh.svc",), ("spiffe://mesh/router",)])
def test_a_certificate_of_somebody_else(authority, names):
    one = authority.issue(*names)
    told = str(flaw(Pem(one.pem, one.key_pem(), authority.pem)))
    assert NAME in told
    assert (names[0] if names else "none") in told
    examine(Pem(one.pem, one.key_pem(), authority.pem), now(), identity=None)


def test_no_message_and_no_representation_shows_a_key(authority):
    pem = authority.pem_for(NAME)
    assert "PRIVATE" not in repr(pem)
    assert pem.private_key.decode().splitlines()[1] not in repr(pem)


def files_in(volume: SecretVolume) -> CertificateFiles:
    paths = {key: volume.folder / path for key, path in volume.settings.items()}
    return CertificateFiles("tls", **paths, identity=ROUTER)


def test_messages_name_the_key_and_the_file(authority, tmp_path):
    volume = SecretVolume(tmp_path / "tls", authority.pem_for(NAME))
    (tmp_path / "tls" / "tls.key").unlink()
    with pytest.raises(ConfigError, match=r"^tls\.private_key: /.*/tls\.key cannot be read \(No such file"):
        files_in(volume).read(now())
    volume = SecretVolume(tmp_path / "other", authority.pem_for("somebody"))
    with pytest.raises(ConfigError, match=r"^tls\.certificate: /.*/tls\.crt is not for tiermesh-router"):
        files_in(volume).read(now())


def test_new_files_are_taken_and_unsound_ones_are_not(authority, tmp_path):
    clock = FakeClock(wall=now().timestamp())
    first, second = authority.pem_for(NAME), authority.pem_for(NAME)
    volume = SecretVolume(tmp_path / "tls", first)
    followed = FollowedFiles(files_in(volume), clock)
    before = followed.newest()[0]
    assert before == first
    assert followed.newest()[0] is before, "nothing is read again while nothing changes"

    volume.put(Pem(first.certificate, second.private_key, first.trusted_ca))
    assert followed.newest()[0] is before
    (tmp_path / "tls" / "..data").unlink()
    assert followed.newest()[0] is before

    volume.put(second)
    assert followed.newest()[0] == second


def test_days_left_go_below_nothing(authority, tmp_path):
    clock = FakeClock(wall=now().timestamp())
    followed = FollowedFiles(files_in(SecretVolume(tmp_path / "tls", authority.pem_for(NAME))), clock)
    assert 89 < followed.days_left() <= 90
    clock.advance(100 * 86400)
    assert -11 < followed.days_left() < -9

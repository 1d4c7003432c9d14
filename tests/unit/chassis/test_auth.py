from hashlib import sha256
from pathlib import Path

import pytest

from chassis.errors import ConfigurationInvalid, OwnerNotAllowed, Unauthenticated
from chassis.serving.auth import ACT, ANYONE, TEACH, ApiKey, Keyring, bearer, check_keys_beyond_loopback
from configuration.keys import keys_text, read_keys
from kernel.errors import Code

# SHA-256 of `sesame`, from the shell's sha256sum.
SESAME = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272"
ADA = ApiKey(name="ada", sha256=SESAME)
BEN = ApiKey(name="ben", sha256=sha256(b"tahini").hexdigest())
RING = Keyring([ADA, BEN])


@pytest.mark.parametrize("header", ["Bearer sesame", "bearer sesame", "BEARER sesame", "Bearer  sesame "])
def test_a_key_names_its_holder(header: str) -> None:
    assert RING.holder(header) == ADA


def test_every_key_of_the_ring_is_accepted() -> None:
    assert RING.holder("Bearer tahini") == BEN


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer open", "sesame", "Basic sesame", f"Bearer {SESAME}", "Bearer sésame"]
)
def test_an_unknown_key_is_rejected(header: str) -> None:
    with pytest.raises(Unauthenticated) as raised:
        RING.holder(header)

    assert raised.value.code is Code.UNAUTHENTICATED
    assert "sesame" not in raised.value.message


def test_an_empty_ring_accepts_everybody_as_nobody() -> None:
    assert not Keyring()
    assert Keyring().holder("") == ANYONE
    assert Keyring().holder("Bearer whatever") == ANYONE


def keys_file(tmp_path: Path, source: str | bytes) -> Path:
    path = tmp_path / "keys.yaml"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return path


def test_keys_are_read_with_what_their_holders_may_do(tmp_path: Path) -> None:
    path = keys_file(tmp_path, f"keys:\n  - name: ada\n    sha256: {SESAME}\n    may_teach: false\n")

    ring = read_keys(path)

    assert bool(ring)
    assert ring.holder("Bearer sesame") == ADA


def test_a_hash_may_be_written_in_capitals(tmp_path: Path) -> None:
    path = keys_file(tmp_path, f"keys:\n  - name: ada\n    sha256: {SESAME.upper()}\n")

    assert read_keys(path).holder("Bearer sesame").name == "ada"


def test_a_holder_may_teach_unless_set_otherwise(tmp_path: Path) -> None:
    path = keys_file(tmp_path, f"keys:\n  - name: ada\n    sha256: {SESAME}\n")

    assert read_keys(path).holder("Bearer sesame").may(TEACH)


def test_the_suites_own_key_acts_for_others_and_no_other_does_unless_the_file_says_so(tmp_path: Path) -> None:
    names = {"suite": "", "suite-old": "", "ada": "", "peer": "true", "old": "false"}
    entries = [
        f'  - name: {name}\n    sha256: "{number:064x}"\n' + (f"    acts_for_others: {stated}\n" if stated else "")
        for number, (name, stated) in enumerate(names.items())
    ]
    ring = read_keys(keys_file(tmp_path, "keys:\n" + "".join(entries)))

    again = read_keys(keys_file(tmp_path, keys_text(ring.keys)))

    assert [key.name for key in ring.keys if key.may(ACT)] == ["suite", "suite-old", "peer"]
    assert again.keys == ring.keys


def test_who_acts_for_another_may_do_what_both_may() -> None:
    suite = ApiKey(name="suite", sha256="1", allowed=frozenset({ACT, TEACH}))
    pupil = ApiKey(name="pupil", sha256="2")
    ring = Keyring([suite, pupil])

    owners = [ring.owner(suite, name) for name in ("pupil", "stranger", "")]

    assert [(owner.name, owner.may(TEACH), owner.may(ACT)) for owner in owners] == [
        ("pupil", False, False),
        ("stranger", True, False),
        ("suite", True, True),
    ]
    with pytest.raises(OwnerNotAllowed, match="acts_for_others"):
        ring.owner(pupil, "suite")


def test_a_key_without_stated_permissions_has_none_and_gets_none_from_whoever_acts_for_it() -> None:
    bare = ApiKey(name="bare", sha256="1")
    suite = ApiKey(name="suite", sha256="2", allowed=frozenset({ACT, TEACH}))

    owner = Keyring([bare, suite]).owner(suite, "bare")

    assert [key.may(permission) for key in (bare, owner) for permission in (ACT, TEACH)] == [False] * 4


def test_without_keys_every_caller_is_the_same_one_whomever_it_names() -> None:
    assert Keyring().owner(ANYONE, "pupil") is ANYONE


def test_without_a_file_there_are_no_keys() -> None:
    assert not read_keys(None)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("keys:\n  - name: ada\n    sha256: d0c04f\n", "ada has no sha256 of 64 hexadecimal digits"),
        (f"keys:\n  - name: ada\n    sha256: {'z' * 64}\n", "ada has no sha256 of 64 hexadecimal digits"),
        (f"keys:\n  - name: ada\n    sha256: {'é' * 64}\n", "ada has no sha256 of 64 hexadecimal digits"),
        ("keys:\n  - name: ada\n    key: sesame\n", "keys.0"),
        ("keys:\n  - sha256: abc\n", "keys.0.name"),
        ("keys: []\n", "at least one key is needed"),
        ("", "body: give an object"),
        ("keys: [", "expected the node content"),
        (b"\xff", "can't decode"),
    ],
)
def test_an_unusable_keys_file_is_rejected_and_never_read_as_no_keys(
    tmp_path: Path, source: str | bytes, reason: str
) -> None:
    path = keys_file(tmp_path, source)

    with pytest.raises(ConfigurationInvalid) as raised:
        read_keys(path)

    assert str(path) in raised.value.message
    assert reason in raised.value.message


def test_a_missing_keys_file_is_rejected_and_never_read_as_no_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="No such file"):
        read_keys(tmp_path / "keys.yaml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "192.168.1.7", "metacog.example.org", ""])
def test_strangers_are_let_in_by_key_only(host: str) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        check_keys_beyond_loopback(host, Keyring(), "METACOG_ROUTER_HOST")

    assert raised.value.metadata == {"setting": "METACOG_ROUTER_HOST"}
    assert "METACOG_KEYS_FILE" in raised.value.message


@pytest.mark.parametrize(("host", "ring"), [("127.0.0.1", Keyring()), ("::1", Keyring()), ("0.0.0.0", RING)])
def test_loopback_needs_no_keys_and_keys_open_the_rest(host: str, ring: Keyring) -> None:
    check_keys_beyond_loopback(host, ring, "METACOG_ROUTER_HOST")


def test_a_key_is_presented_as_it_is_requested() -> None:
    assert RING.holder(bearer("sesame")["authorization"]) == ADA


def test_no_key_presents_nothing() -> None:
    assert bearer("") == {}


@pytest.mark.parametrize("names", [("",), ("ann", "ann")])
def test_every_key_needs_a_name_of_its_own_which_its_runs_are_recorded_under(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n" + "".join(f"  - {{name: '{name}', sha256: {'a' * 64}}}\n" for name in names))

    with pytest.raises(ConfigurationInvalid, match="a name of its own"):
        read_keys(file)

"""Nobody is named in the log, and a receipt is worth something only to who was given it."""

import pytest

from libs.contracts.pseudonyms import is_receipt_of, network_of, pseudonym, receipt

SECRET, OTHER = b"s" * 32, b"o" * 32


def test_the_same_id_has_another_name_in_each_contest_and_as_each_kind_of_voter() -> None:
    names = {
        pseudonym(SECRET, "voter", "x"),
        pseudonym(SECRET, "anonymous", "x"),
        pseudonym(SECRET, "address", "x"),
        pseudonym(OTHER, "voter", "x"),
    }
    assert len(names) == 4
    assert {len(name) for name in names} == {22}
    assert pseudonym(SECRET, "voter", "x") in names


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:ffff::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::2", "2001:db8:0:1::/64"),
    ],
)
def test_an_address_counts_by_what_one_person_holds(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_receipt_is_known_by_the_server_that_gave_it_and_only_for_its_contest() -> None:
    given = receipt(SECRET, "contest", "voter", "vote")
    assert is_receipt_of(SECRET, "contest", given)
    assert not is_receipt_of(SECRET, "contest2", given)
    assert not is_receipt_of(OTHER, "contest", given)
    forged = [given[:at] + ("A" if given[at] != "A" else "B") + given[at + 1 :] for at in range(len(given) - 1)]
    assert not any(is_receipt_of(SECRET, "contest", each) for each in [*forged, "", "%", "AAAA"])

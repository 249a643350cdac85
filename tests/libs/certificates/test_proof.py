"""A receipt proves that its vote is in the sealed set, and reveals nothing about others."""

from typing import Any

import pytest

from libs.certificates.merkle_proofs import Leaf, problems, proof_of
from libs.contracts.certificates import Certificate, Proof
from libs.tally.events import VoteCast
from tests.libs.certificates.in_memory_log import MARK, receipted, recorded
from tests.support.builders.contests import a_cast, a_removal, pseudonym

CASTS = [receipted(a_cast("ab"[at % 2], voter=f"voter {at}", vote_id=f"v{at}")) for at in range(9)]
Sealed = tuple[Certificate, list[Leaf]]


@pytest.fixture(scope="module")
async def sealed() -> Sealed:
    """Nine votes and the removal of the fourth, in partition 0."""
    log = recorded([*CASTS, a_removal("v3", voter="voter 3"), MARK])
    return await log.certify(), await (await log.sealing()).leaves(0)


def prove(sealed: Sealed, cast: VoteCast) -> Proof:
    certificate, leaves = sealed
    proof = proof_of(certificate, 0, leaves, cast.receipt)
    assert proof is not None
    return proof


async def test_every_vote_can_be_proved_with_what_became_of_it(sealed: Sealed) -> None:
    for at, cast in enumerate(CASTS):
        proof = prove(sealed, cast)
        assert problems(proof, sealed[0]) == []
        assert proof.became == ("removed" if at == 3 else "counted")
        assert Proof.model_validate_json(proof.model_dump_json()) == proof


async def test_nobody_is_named(sealed: Sealed) -> None:
    text = prove(sealed, CASTS[4]).model_dump_json()
    for cast in CASTS:
        assert (cast.receipt in text) == (cast is CASTS[4])
        assert pseudonym(f"voter {cast.vote_id[1:]}") not in text


async def test_a_receipt_of_no_sealed_vote_has_no_proof(sealed: Sealed) -> None:
    assert [proof_of(sealed[0], 0, sealed[1], receipt) for receipt in ("receipt-of-v9", "", "-")] == [None] * 3


@pytest.mark.parametrize(
    "forged",
    [
        {"receipt": "receipt-of-v5"},
        {"became": "removed"},
        {"became": "-"},
        {"offset": 6},
        {"value_sha256": "00" * 32},
        {"index": 3},
        {"index": 99},
        {"index": -1},
        {"partition": 1},
        {"partition": 7},
        {"seq": 2},
        {"contest_key": "another"},
        {"certificate": "00" * 32},
        {"path": []},
        {"path": ["no hex"] * 4},
    ],
    ids=str,
)
async def test_what_is_changed_in_a_proof_is_found(sealed: Sealed, forged: dict[str, Any]) -> None:
    assert problems(prove(sealed, CASTS[4]).model_copy(update=forged), sealed[0])


async def test_each_sibling_matters(sealed: Sealed) -> None:
    proof = prove(sealed, CASTS[4])
    for at in range(len(proof.path)):
        path = [*proof.path[:at], "00" * 32, *proof.path[at + 1 :]]
        [problem] = problems(proof.model_copy(update={"path": path}), sealed[0])
        assert "root of partition 0" in problem


async def test_a_changed_certificate_proves_nothing(sealed: Sealed) -> None:
    certificate, proof = sealed[0], prove(sealed, CASTS[4])
    result = certificate.result.model_copy(update={"count": 80})
    [problem] = problems(proof, certificate.model_copy(update={"result": result}))
    assert "certificate was changed" in problem

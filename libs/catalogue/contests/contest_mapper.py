"""Maps a contest's records to the `Contest` of the voting rules, with phase and order of participants."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from libs.catalogue.contests.closing_record import Closing, closing_of, reopened_of, status_of, votes_from
from libs.catalogue.contests.corrections import in_running_order
from libs.catalogue.contests.seals import is_erased
from libs.catalogue.contests.vote_sources import SourceConfig, source_name, source_of
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import ContestConfig, Ordering, Rating, RenewFreeVote
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.tally.contest import MILLION, Contest, Limits, ParticipantStatus, RatingScale, Renewal
from libs.tally.errors import ViewsUnavailable
from libs.tally.time_conversion import microseconds
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.catalogue.stored_records import DELETED_CONTESTS


async def load_contest(views: CatalogueViews, account: str, key: str) -> Contest | None:
    """Return the contest with all defaults, or None if `account` has no such contest.

    Its `version` is the configuration version of the records.
    """
    return contest_of(account, await views.contest_config(account, key))


async def load_kept_contest(views: CatalogueViews, account: str, key: str) -> Contest | None:
    """Return the contest as `load_contest`, also a deleted one, which `tally contests restore` may bring back.

    None if it is neither there nor kept. Raises `ViewsUnavailable` while it is deleted or restored.
    """
    config = await views.contest_config(account, key)
    if config.contest is not None:
        return contest_of(account, config)
    deleted = await views.get(account, DELETED_CONTESTS, key)
    if deleted is None and (await views.contest_config(account, key)).version != config.version:
        raise ViewsUnavailable("The contest changes while it is read; retry shortly.", retry_after_s=1)
    return contest_of(account, replace(config, contest=deleted))


def contest_of(account: str, config: ContestRecords) -> Contest | None:
    """Map records that were already read, as `load_contest`."""
    if config.contest is None or config.version is None:
        return None
    document = config.contest.document
    record, closing = ContestRecord.model_validate(document), closing_of(document)
    rules = record.contest_config
    return Contest(
        key=config.contest.key,
        account=account,
        version=config.version,
        contest_type=record.contest_type,
        publish=None if record.publish is None else microseconds(record.publish),
        start=None if rules.start is None else microseconds(rules.start),
        end=None if rules.end is None else microseconds(rules.end),
        free=Limits(rules.free.max_participant, rules.free.max_contest),
        paid=Limits(rules.paid.max_participant, rules.paid.max_contest),
        is_mobile_only=rules.free.is_mobile_only,
        is_anonymous_voting_enabled=rules.is_anonymous_voting_enabled,
        is_paid_anonymous=rules.paid.is_anonymous,
        is_vote_removal_allowed=rules.is_vote_removal_allowed,
        ip_restriction_per_participant=rules.ip_restriction_per_participant,
        participants=_statuses(in_running_order(config), closing),
        renewal=_renewal(rules.renew_free_vote),
        rating=_scale(rules.rating),
        positions=_positions(rules.ordering),
        closed=0 if closing is None else closing.seq,
        reopened=reopened_of(document),
        votes_from=votes_from(document),
        is_erased=is_erased(document),
        as_of=config.as_of,
    )


def _statuses(participants: Sequence[Stored], closing: Closing | None) -> dict[str, ParticipantStatus]:
    """Return the participants' statuses; in a closed contest the approved ones at its closing, others rejected."""
    if closing is None:
        return {stored.key: status_of(stored) for stored in participants}
    approved = closing.approved
    return {stored.key: "approved" if stored.key in approved else "rejected" for stored in participants}


def _renewal(rules: RenewFreeVote | None) -> Renewal:
    if rules is None:
        return Renewal()
    return Renewal(max(0, rules.cooldown or 0) * MILLION, max(0, rules.days_between or 0))


def _scale(rules: Rating) -> RatingScale:
    highest = {
        sub.sub_rating_id: rules.max_rating if sub.max_votes is None else sub.max_votes
        for sub in rules.sub_rating_configs
    }
    return RatingScale(
        highest=rules.max_rating * MILLION,
        fractions=rules.step_size == "fraction",
        max_per_participant=rules.max_per_participant,
        sub_ratings={name: value * MILLION for name, value in highest.items()},
    )


def _positions(rules: Ordering | None) -> dict[str, int]:
    """Return the positions' votes ordered by index; positions without an index are last."""
    if rules is None:
        return {}
    ordered = sorted(rules.positions, key=lambda position: (position.index is None, position.index or 0))
    return {position.id: position.votes for position in ordered}


def sources_of(config: ContestRecords) -> Mapping[str, SourceConfig]:
    """Return the external sources by name, also retired ones; in a closed contest those at its closing."""
    closing = None if config.contest is None else closing_of(config.contest.document)
    if closing is not None:
        return closing.sources
    return {source_name(stored): source_of(stored) for stored in config.sources}


Comparable = int | tuple[int, ...]


def listed(
    participants: Sequence[Stored], rules: ContestConfig, votes: Mapping[str, Comparable] | None
) -> list[Stored]:
    """Sort `participants`, which are in running order, by `participant_order`; limit to `limit_result_amount`.

    By `vote_count`, the largest of `votes` (counts, or sort keys of ranks) is first; equal ones stay in running
    order. If the counts are hidden from the reader, `votes` is None and all do: the order reveals nothing.
    """
    found = list(participants)
    if votes is not None and rules.participant_order == "vote_count":
        counted = [stored for stored in found if stored.key in votes]
        counted.sort(key=lambda stored: votes[stored.key], reverse=True)
        found = counted + [stored for stored in found if stored.key not in votes]
    limit = rules.limit_result_amount
    return found if limit < 0 else found[:limit]

"""What a voter's client may ask afterwards: a vote's status, and what is left to cast."""

from collections import defaultdict

from libs.casting.contests import Contests
from libs.contracts.problems import Problem, ValidationFailed
from libs.contracts.tokens import encode_positions
from libs.contracts.topics import Topic
from libs.tally.contest import UNLIMITED, Contest, Limits
from libs.tally.errors import NotFound, TallyError, timestamp
from libs.tally.rules import remaining
from libs.tally.standing import VoteStatus
from libs.views.votes import VoteViews
from services.ingestion.forms import (
    Allowance,
    AllowanceAnswer,
    Choice,
    ParticipantAllowance,
    SourceAllowance,
    VoteStatusAnswer,
    check_vote,
)
from services.ingestion.voters import voter_pseudonym

REASONS = {VoteStatus.OVERRULED: "It exceeded the limits that it was judged by."}


class VoterReads:
    """Reads of one voter, found by the pseudonym that only this contest's secret gives."""

    def __init__(self, topic: Topic, views: VoteViews, contests: Contests) -> None:
        self._topic = topic
        self._views = views
        self._contests = contests

    async def status(
        self, account: str, contest: str, vote_id: str, voter_id: str | None, anonymous_id: str | None
    ) -> VoteStatusAnswer:
        """Raises `NotFound` for an id that was never accepted from this voter."""
        voter = await self._voter(account, contest, voter_id, anonymous_id)
        partition = self._topic.partition_of(voter)
        state = await self._views.lookup(partition, contest, voter, vote_id)
        if state.status is None:
            if not state.pending:
                raise NotFound(f"This voter has no accepted vote {vote_id}.", vote_id=vote_id)
            return VoteStatusAnswer(
                vote_id=vote_id,
                contest_key=contest,
                status="accepted",
                reason=None,
                accepted_at=timestamp(state.accepted_at),
                source=None,
                choices=None,
                position=None,
            )
        return VoteStatusAnswer(
            vote_id=vote_id,
            contest_key=contest,
            status="counted" if state.status is VoteStatus.COUNTED else "overruled",
            reason=REASONS.get(state.status),
            accepted_at=timestamp(state.accepted_at),
            source=state.source,
            choices=[Choice(participant_key=state.participant or "", count=state.count)],
            position=encode_positions({partition: (state.offset or 0) + 1}),
        )

    async def allowance(
        self, account: str, contest_key: str, voter_id: str | None, anonymous_id: str | None
    ) -> AllowanceAnswer:
        """A voter who never voted has used nothing."""
        voter = await self._voter(account, contest_key, voter_id, anonymous_id)
        contest = await self._contests.reload(account, contest_key)
        rows = await self._views.allowance(self._topic.partition_of(voter), contest_key, voter)
        used: dict[tuple[str, str], int] = defaultdict(int)
        for row in rows:
            used[row.source, row.participant] += row.votes
        return AllowanceAnswer(
            contest_key=contest_key,
            sources=[
                _of_source(contest, "c-free", contest.free, used),
                _of_source(contest, "c-paid", contest.paid, used),
            ],
            next_free_vote_at=None,
        )

    async def _voter(self, account: str, contest: str, voter_id: str | None, anonymous_id: str | None) -> str:
        form = {"participant_key": "p", "voter_id": voter_id, "anonymous_id": anonymous_id}
        checked = check_vote(form)
        if isinstance(checked, TallyError):
            message = "give voter_id or anonymous_id, exactly one, of 1 to 256 bytes without control characters"
            raise ValidationFailed([Problem("", message)])
        return voter_pseudonym(await self._contests.secret(account, contest), voter_id, anonymous_id)


def _of_source(contest: Contest, source: str, limits: Limits, used: dict[tuple[str, str], int]) -> SourceAllowance:
    return SourceAllowance.model_validate(
        {
            "source": source,
            "contest": _allowance(limits.max_contest, used[source, ""]),
            "participants": [
                ParticipantAllowance(
                    participant_key=key,
                    **_allowance(limits.max_participant, used[source, key]).model_dump(),
                )
                for key, status in contest.participants.items()
                if status == "approved"
            ],
        }
    )


def _allowance(limit: int, used: int) -> Allowance:
    left = remaining(limit, used)
    return Allowance(
        used=used,
        limit=None if limit == UNLIMITED else limit,
        remaining=None if left is None else max(0, left),
    )

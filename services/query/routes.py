"""Routes of the query service with their OpenAPI descriptions."""

from typing import Annotated, Final

from fastapi import Query

from libs.web.documents.openapi import UNCHANGED, Schema, needs, problems
from libs.web.door.typed_routes import IfNoneMatch
from libs.web.server.asgi_routes import HotRoute
from services.query.public_contest import PublicContest, PublicContests
from services.query.public_results import PublicResults
from services.query.response_models import COUNT_HEADERS, PublicResultsRecord, VoteCount
from services.query.vote_updates import VoteUpdates

SourcesFlag = Annotated[bool, Query(description="Include the breakdown by source.")]
DetailsFlag = Annotated[
    bool,
    Query(
        description="Include titles and images, running numbers, the seal and, with `sources`, the external "
        "counts that are held."
    ),
]
MinPosition = Annotated[
    list[str] | None,
    Query(
        description="A `Tally-Position`, or several, each as a parameter of its own: wait at most 5 s, then 503, "
        "until all votes before them are counted."
    ),
]
AsOf = Annotated[
    str | None,
    Query(
        description="An RFC 3339 time: return the counts as of the end of that minute, by the time that events "
        "were appended to the log. Before the contest all counts are zero; a future time means now. "
        "Participants, titles and mappings are the current ones, for a closed contest those of its closing. "
        "Visible whenever the current counts are.",
        json_schema_extra={"format": "date-time"},
    ),
]
ReceiptOfVote = Annotated[
    str | None,
    Query(description="The `receipt` of a vote in this contest: shows results that are `hidden_until_vote`."),
]

PUBLIC_HEADERS: Final[Schema] = {
    "ETag": {"description": "Strong entity tag.", "schema": {"type": "string"}},
    "Cache-Control": {
        "description": "Cacheable by shared caches, never past a change of phase; with a receipt `no-store`.",
        "schema": {"type": "string"},
    },
}


def count_route(serve: VoteUpdates) -> HotRoute:
    """Return the route of the current or past counts."""

    def get_vote_counts(
        contest_key: str,
        sources: SourcesFlag = False,
        details: DetailsFlag = False,
        min_position: MinPosition = None,
        at: AsOf = None,
        if_none_match: IfNoneMatch = None,
    ) -> None:
        """Returns the contest's counts. While they are hidden, `results:read_hidden` is also needed.

        Includes catalogue changes at once, votes within 0.1 s or, with `min_position`, at once. With `at`,
        `updated`, `Tally-Position` and `Tally-Final` are as of that time, too.
        """

    return HotRoute(
        "/contests/{contest_key}/vote_updates",
        get_vote_counts,
        serve,
        most_bytes=0,
        methods=["GET"],
        response_model=VoteCount,
        responses={
            200: {"description": "The counts.", "headers": COUNT_HEADERS},
            **UNCHANGED,
            **problems("results_hidden", "not_found"),
        },
        openapi_extra=needs("results:read"),
        tags=["results"],
        summary="Read a contest's vote counts",
    )


def public_route(serve: PublicResults) -> HotRoute:
    """Return the route of the results that voters see."""

    def get_public_results(
        contest_key: str, receipt: ReceiptOfVote = None, if_none_match: IfNoneMatch = None
    ) -> None:
        """Returns the results of a published contest. Public: no key is needed.

        While `vote_visibility` hides them, counts, ranks and shares are null and the order is by running number.
        """

    return HotRoute(
        "/public/contests/{contest_key}/results",
        get_public_results,
        serve,
        methods=["GET"],
        response_model=PublicResultsRecord,
        responses=problems("not_found", "validation_failed", "views_unavailable")
        | {200: {"description": "The results.", "headers": PUBLIC_HEADERS}, **UNCHANGED},
        tags=["results"],
        summary="Read a contest's public results",
    )


def public_contest_route(serve: PublicContests) -> HotRoute:
    """Return the route of a contest as voters see it."""

    def get_public_contest(contest_key: str, if_none_match: IfNoneMatch = None) -> None:
        """Returns a published contest and its participants, for apps without a key. Public: no key is needed.

        Pages of every origin may read it. Contests in setup are not found. Counts are in the public results.
        """

    return HotRoute(
        "/public/contests/{contest_key}",
        get_public_contest,
        serve,
        methods=["GET"],
        response_model=PublicContest,
        responses=problems("not_found", "validation_failed", "views_unavailable")
        | {200: {"description": "The contest.", "headers": PUBLIC_HEADERS}, **UNCHANGED},
        tags=["results"],
        summary="Read a contest as voters see it",
    )

"""The specification's endpoint table of the current API, as data: every row, in its order.

The three rows of `<upload_url>` are proven with the files' bytes: that address is no path of its own.
"""

from __future__ import annotations

from typing import Final

ENDPOINTS: Final[tuple[tuple[str, str], ...]] = (
    ("POST", "/shops"),
    ("GET", "/shops"),
    ("GET, PATCH, DELETE", "/shops/<shop_key>"),
    ("POST", "/master_shops"),
    ("GET", "/master_shops"),
    ("GET, PATCH, DELETE", "/master_shops/<shop_key>"),
    ("POST", "/conventions"),
    ("GET", "/conventions"),
    ("GET, PATCH, DELETE", "/conventions/<convention_key>"),
    ("POST", "/conventions/<convention_key>/timeslots"),
    ("GET", "/conventions/<convention_key>/timeslots"),
    ("GET, PATCH, DELETE", "/timeslots/<timeslot_key>"),
    ("POST", "/contests"),
    ("GET", "/contests"),
    ("GET, PATCH, DELETE", "/contests/<contest_key>"),
    ("POST", "/apps"),
    ("GET", "/apps"),
    ("GET, PATCH, DELETE", "/apps/<app_key>"),
    ("GET", "/surveys"),
    ("POST", "/surveys/<survey_key>"),
    ("GET, PATCH, DELETE", "/surveys/<survey_key>"),
    ("POST", "/feeds"),
    ("GET", "/feeds"),
    ("GET, PATCH, DELETE", "/feeds/<feed_key>"),
    ("POST", "/articles"),
    ("GET", "/articles"),
    ("GET, PATCH, DELETE", "/articles/<article_key>"),
    ("POST", "/files"),
    ("GET, PATCH, DELETE", "/files/<file_key>"),
    ("POST", "/images"),
    ("POST", "/images/upload_from_url"),
    ("GET, DELETE", "/images/<image_key>"),
    ("GET", "/api/users/<user_id>/purchases"),
    ("GET", "/api/purchases/<purchase_key>"),
    ("GET", "/contests/<contest_key>/vote_updates/?sources=true"),
)

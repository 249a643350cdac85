"""The specification of the current API as data: kinds of members, every field, and every endpoint, in its order.

Names of fields are pointers without the first "/"; "*" is every item of a list. An object or list whose inner
fields the specification lists has rows for these. A new field gets a row here, and is proven by that.
"""

from dataclasses import dataclass, replace
from typing import Any, Final


@dataclass(frozen=True)
class Key:
    """Stands for the key of one of two records that a test has."""

    resource: str
    number: int = 0


@dataclass(frozen=True)
class Kind:
    """`shown` is what `second` reads as, where that is another value, and `merged` what it is after `first`.

    `wrong` values are refused by themselves, `dangling` ones because they name no record. What is `required`
    cannot be cleared; any other member reads as `unset` then.
    """

    first: Any
    second: Any
    wrong: tuple[Any, ...] = ()
    unset: Any = None
    shown: Any = None
    merged: Any = None
    dangling: tuple[Any, ...] = ()
    required: bool = False

    def changed(self, is_in_list: bool) -> Any:
        """Return the value read after a change of `first` to `second`: lists are replaced, objects merged."""
        found = (self.shown, self.second) if is_in_list else (self.merged, self.shown, self.second)
        return next(value for value in found if value is not None)


TEXT: Final = Kind("One", "Zwei ☃", (5, True, ["a"], {"a": 1}))
NEEDED: Final = replace(TEXT, required=True)
ID: Final = Kind("one", "two", (5, "", "x" * 65, []), required=True)
FLAG: Final = Kind(True, False, ("true", 1, 0, []), unset=False)
FLAG_UNLESS: Final = Kind(False, True, FLAG.wrong, unset=True)
WHOLE: Final = Kind(-3, 4, ("3", 1.5, True, {}))
COUNT: Final = Kind(3, 0, ("3", 1.5, True, -1, 2**31))
NUMBER: Final = Kind(0.5, 2, ("0.5", True, []))
TIME: Final = Kind(
    "2036-05-01T18:00:00.123456Z",
    "2036-05-02t20:00:00.5+02:00",
    ("tomorrow", 5, "2036-05-01T18:00:00", "2036-02-30T18:00:00Z"),
    shown="2036-05-02T18:00:00.500000Z",
)
FREE: Final = Kind(
    {"any": [1, None, {"deep": True}]},
    {"other": {}},
    ("x", 5, []),
    unset={},
    merged={"any": [1, None, {"deep": True}], "other": {}},
)
LIST: Final = Kind([{"a": 1}, "b", 3], [[]], ("x", {}, 5), unset=[])
TEXTS: Final = Kind(["a", "b"], ["c"], ("a", [1], [None]), unset=[])
ACCESS: Final = Kind("public", "private", ("secret", 5, True), unset="private")
MEDIA_TYPE: Final = Kind("text/plain", "application/pdf", ("text", 5, "a/b\nc"), required=True)
PART: Final = Kind({}, {}, ("x", 5, []))
"""An object whose members have rows of their own."""
ITEMS: Final = Kind([], [], ("x", {}, ["x"]))
"""A list of such objects."""
SERVER: Final = Kind(None, None)
"""The server's own: what a body says of it is ignored."""


def count(unset: int) -> Kind:
    return replace(COUNT, unset=unset)


def limit(unset: int | None, *also_wrong: int) -> Kind:
    """-1 is unlimited."""
    return Kind(5, -1, ("3", 1.5, True, -2, 2**31, *also_wrong), unset=unset)


def one_of(unset: str, other: str) -> Kind:
    """A closed enumeration."""
    return Kind(other, unset, ("another", 5, True), unset=unset)


def template(*placeholders: str) -> Kind:
    both = " ".join(f"{{{name}}}" for name in placeholders)
    return Kind(f"{both}{{}} {{nobody}}", both, (5,))


def key_of(resource: str) -> Kind:
    """The key of a record, or the id of a part of one."""
    return Kind(Key(resource), Key(resource, 1), (5, []), dangling=("nothing", "\x00", "x" * 401))


def linked(resource: str) -> Kind:
    """A free-form object whose `key` is that of a record."""
    return Kind(
        {"key": Key(resource), "x": 1},
        {"key": Key(resource, 1)},
        ("x", [], {"key": 5}),
        unset={},
        merged={"key": Key(resource, 1), "x": 1},
        dangling=({"key": "nothing"}, {"key": "\x00"}),
    )


Fields = dict[str, Kind]


def each(kind: Kind, *names: str) -> Fields:
    return dict.fromkeys(names, kind)


def part(name: str, *tables: Fields) -> Fields:
    """An object with the fields of `tables`."""
    return {name: PART} | {f"{name}/{inner}": kind for table in tables for inner, kind in table.items()}


def items(name: str, *tables: Fields) -> Fields:
    """A list of such objects."""
    return {name: ITEMS} | {f"{name}/*/{inner}": kind for table in tables for inner, kind in table.items()}


_COMMON: Final = each(SERVER, "key", "created", "updated")
_BUTTON: Final[Fields] = {"text": TEXT, "icon": FREE, "style": FREE}

_SHOP: Final[Fields] = {
    **_COMMON,
    "title": TEXT,
    "article": key_of("articles"),
    "currency": TEXT,
    "currency_symbol": TEXT,
    "currency_template": template("currency_symbol", "price"),
    "title_template": template("participant_title"),
    "description_template": template("user_name"),
    "receipt_description_template": template("get_votes_count"),
    "is_login_required": FLAG,
    "shop_type": TEXT,
    "payment_methods": TEXTS,
    "stripe_statement_descriptor_suffix": TEXT,
    **part("ok_button", _BUTTON),
    **part("cancel_button", _BUTTON),
    "image": linked("images"),
    **each(FREE, "style", "custom_data"),
    **items(
        "packages",
        _COMMON,
        each(TEXT, "title", "package_type"),
        each(COUNT, "price", "vote_count", "sub_months"),
        {"after_purchase_navigation": FREE},
    ),
}

_CONTEST_CONFIG: Final[Fields] = {
    **each(TIME, "start", "end"),
    **part("free", {"is_mobile_only": FLAG, "max_contest": limit(-1), "max_participant": limit(1)}),
    **part("paid", {"is_anonymous": FLAG, "max_contest": limit(-1), "max_participant": limit(-1)}),
    **part(
        "rating",
        {"max_per_participant": limit(1), "max_rating": count(5), "step_size": TEXT, "style": FREE},
        items("sub_rating_configs", {"sub_rating_id": ID, "title": TEXT, "max_votes": COUNT, "style": FREE}),
    ),
    **part(
        "ordering",
        {"skin": TEXT, "position_style": FREE, "position_icon": FREE},
        items(
            "positions", {"id": ID, "index": WHOLE, "votes": count(1), "title": TEXT}, each(FREE, "style", "icon")
        ),
    ),
    "ip_config": TEXT,
    "ip_restriction_per_participant": limit(10, 0),
    **each(limit(-1), "limit_result_amount", "share_top_x"),
    **each(FLAG, "is_anonymous_voting_enabled", "is_contest_time_shown", "is_grid_hidden", "is_randomize"),
    "is_vote_removal_allowed": FLAG_UNLESS,
    "participant_order": one_of("participated", "running_number"),
    "participant_visibility": one_of("shown", "owner_only"),
    "vote_visibility": one_of("shown", "hidden_until_end"),
    "participant_style": FREE,
    **part("renew_free_vote", each(limit(None), "cooldown", "days_between")),
}

FIELDS: Final[dict[str, Fields]] = {
    # Shop and Master Shop (same shape)
    "shops": _SHOP,
    "master_shops": _SHOP,
    # Schedule
    "conventions": {
        **_COMMON,
        "title": TEXT,
        **each(TIME, "start", "end"),
        **items("days", {"id": ID}, each(TEXT, "title", "bottom_text"), each(TIME, "start", "end")),
        **items("venues", {"id": ID, "title": TEXT, "description": TEXT, "position": WHOLE, "style": FREE}),
        "search_help": LIST,
        **part("style", each(NUMBER, "alpha", "letter_spacing"), {"max_lines": WHOLE, "sub_styles": LIST}),
        "custom_data": FREE,
    },
    # Timeslot
    "timeslots": {
        **_COMMON,
        "article": key_of("articles"),
        "image": key_of("images"),
        "day_id": key_of("days"),
        "venue_id": key_of("venues"),
        **each(TEXT, "title", "description", "time_text"),
        **each(TIME, "start", "end"),
        "navigation": FREE,
        "search_terms": TEXTS,
        **each(FREE, "style", "custom_data"),
    },
    # Contest, and contest_config
    "contests": {
        **_COMMON,
        **each(TEXT, "title", "description"),
        "publish": TIME,
        "contest_type": one_of("voteonly", "rating"),
        "image": linked("images"),
        "share": FREE,
        "shop": linked("shops"),
        **each(FREE, "style", "video", "custom_data"),
        "tags": TEXTS,
        "thumbnail": LIST,
        **part("contest_config", _CONTEST_CONFIG),
    },
    # App
    "apps": {
        **_COMMON,
        **each(TEXT, "title", "consent_setup"),
        "master_shop_key": key_of("master_shops"),
        **part("app_store", each(TEXT, "bundle_id", "app_store_id", "access_key")),
        **part(
            "build",
            part(
                "splash",
                each(FREE, "splash_image", "background", "background_style"),
                each(FREE, "foreground", "foreground_style", "style"),
            ),
            each(FREE, "firebase_project", "android", "ios"),
            part(
                "general",
                each(TEXT, "website", "support_email", "support_url", "terms_url", "privacy_policy_url"),
            ),
        ),
        **part(
            "config",
            {"app_wide_topic": FREE, "is_contest_firebase_connection": FLAG},
            each(FLAG, "is_data_service_enabled", "is_login_required_at_startup"),
            part("cloud_settings", {"region": TEXT, "updated": SERVER}),
        ),
        **part(
            "studio_app_profile",
            part("auth_methods", each(FLAG, "is_apple", "is_email", "is_facebook", "is_google", "is_sms")),
            each(TEXT, "firebase_project_key", "provider_key"),
            each(FLAG, "is_age_enabled", "is_auto_profile_image_enabled", "is_city_enabled", "is_email_enabled"),
            each(FLAG, "is_forgot_your_password_enabled", "is_gender_enabled", "is_logout_enabled"),
            each(FLAG, "is_name_enabled", "is_profile_enabled", "is_profile_image_enabled"),
            each(FREE, "login", "profile", "provider", "register"),
        ),
        **part("toolbar", {"image": linked("images"), "style": FREE}, each(TEXT, "subtitle", "title")),
        **each(FREE, "default_nav_item", "google_play"),
        "image": linked("images"),
        "custom_data": FREE,
        "screens": LIST,
        "tags": TEXTS,
    },
    # Survey
    "surveys": {
        **_COMMON,
        "title": TEXT,
        **each(TIME, "start", "end"),
        **each(LIST, "fields", "groups"),
        "tags": TEXTS,
        "image": linked("images"),
        **each(FREE, "style", "custom_data"),
        **part(
            "settings",
            {"answer_mode": TEXT, "auto_delete_answers_after_days": limit(-1), "is_anonymous_enabled": FLAG},
        ),
    },
    # Feed
    "feeds": {
        **_COMMON,
        "title": TEXT,
        "divider_height": WHOLE,
        **each(FREE, "header", "footer", "style", "custom_data"),
        "tags": TEXTS,
        **part(
            "inner_navigation",
            {"is_swipe_enabled": FLAG, "location": TEXT},
            part("navigation_block", {"is_scroll": FLAG, "nav_list": LIST}),
        ),
    },
    # Article
    "articles": {
        **_COMMON,
        **each(TEXT, "title", "description"),
        "origin_template": key_of("articles"),
        **each(LIST, "content", "thumbnail"),
        **each(FREE, "navigation", "style", "thumbnail_style"),
        "image": linked("images"),
        "custom_data": FREE,
        "tags": TEXTS,
    },
    # File (metadata)
    "files": {
        **_COMMON,
        **each(NEEDED, "filename", "file_extension"),
        "file_type": MEDIA_TYPE,
        "description": TEXT,
        "is_scanned": SERVER,
        **part("access", {"access": ACCESS, "updated": SERVER}),
        "custom_data": FREE,
        "upload_url": SERVER,
    },
}
"""Members that clients write, except those of images, whose records are made from a picture."""

OURS: Final[dict[str, frozenset[str]]] = {
    "contests": frozenset(
        {"phase", "running_order", "contest_config/contest_visibility", "contest_config/result_release"}
    ),
}
"""Members that this service adds to the specification's."""

_COUNTS: Final = ("count", "anonymous_voter_count", "unique_voter_count")


def below(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}/{name}" for name in names)


READ_ONLY: Final[dict[str, tuple[str, ...]]] = {
    "images": (*_COMMON, "title", "format", *below("access", "access", "updated"), "custom_data"),
    "purchases": (
        *_COMMON,
        *("package_key", "shop_key", "price", "purchase_platform", "purchase_token", "type"),
        *below("subscription", "is_auto_renew", "grace_end", "expiration", "access"),
        *below("vote", "contest_key", "participant_key", "count"),
    ),
    "vote_counts": (
        *("contest_key", "contest_type", "created", "updated", *_COUNTS),
        *below("participants/*", *_COUNTS),
        *below("participants/*/vote_sources/*", "source", *_COUNTS),
        *below("total_vote_sources/*", "source", "title", *_COUNTS, "is_in_total", "is_internal", "updated"),
    ),
}
"""Members that are only read. `mapped_id` of external vote sources is tested with those."""

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
    ("PUT", "<upload_url>"),
    ("GET", "<upload_url>"),
    ("DELETE", "<upload_url>"),
    ("POST", "/images"),
    ("POST", "/images/upload_from_url"),
    ("GET, DELETE", "/images/<image_key>"),
    ("GET", "/api/users/<user_id>/purchases"),
    ("GET", "/api/purchases/<purchase_key>"),
    ("GET", "/contests/<contest_key>/vote_updates/?sources=true"),
)
"""Those of `<upload_url>`, which need no key, are tested in `tests/e2e/test_files.py`."""

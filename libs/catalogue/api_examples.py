"""Example of each resource for the API documentation, with the specification's values if it has any."""

from typing import Any, Final

CHANGED: Final = {"created": "2026-05-01T18:00:00.000000Z", "updated": "2026-05-01T18:00:00.300000Z"}
"""The server's times of a record."""
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "shops": {
        "title": "Votes",
        "currency": "EUR",
        "currency_symbol": "€",
        "currency_template": "{currency_symbol}{price}",
        "title_template": "Votes for {participant_title}",
        "description_template": "Bought by {user_name}",
        "receipt_description_template": "{get_votes_count} votes",
        "is_login_required": True,
        "shop_type": "participant_vote",
        "payment_methods": ["google_play", "app_store", "stripe"],
        "stripe_statement_descriptor_suffix": "VOTES",
        "ok_button": {"text": "Buy", "icon": {}, "style": {}},
        "packages": [{"title": "Ten votes", "package_type": "permanent", "price": 199, "vote_count": 10}],
    },
    "conventions": {
        "title": "Summer festival",
        "start": "2026-07-01T10:00:00.000000Z",
        "end": "2026-07-02T23:00:00.000000Z",
        "days": [{"id": "friday", "title": "Friday", "start": "2026-07-01T10:00:00.000000Z"}],
        "venues": [{"id": "main", "title": "Main stage", "position": 1}],
        "style": {"alpha": 0.8, "letter_spacing": 0.1, "max_lines": 2, "sub_styles": []},
        "custom_data": {"is_list_open_default": True, "list_default_mode": "order_venue"},
    },
    "timeslots": {
        "title": "The Examples",
        "day_id": "friday",
        "venue_id": "main",
        "time_text": "8 pm",
        "start": "2026-07-01T20:00:00.000000Z",
        "end": "2026-07-01T21:30:00.000000Z",
        "search_terms": ["rock"],
    },
    "contests": {
        "title": "Song of the year",
        "contest_type": "voteonly",
        "publish": "2026-05-01T18:00:00.000000Z",
        "contest_config": {
            "start": "2026-05-01T18:00:00.000000Z",
            "end": "2036-05-01T20:00:00.000000Z",
            "free": {"max_contest": 3, "max_participant": 1},
            "vote_visibility": "hidden_until_end",
        },
    },
    "participants": {"title": "The Examples", "story": "Four friends from Berlin.", "number_string": "A1"},
    "accounts": {"brand_name": "Music Channel"},
    "vote_sources": {
        "title": "Text messages",
        "mode": "cumulative",
        "mapping": {"A": "5f0c7d1e2b3a49586776a5b4"},
    },
    "shows": {
        "state": "reveal",
        "revealed": 3,
        "call_to_vote": {"is_shown": False, "url": "https://vote.example.com", "text": "vote.example.com"},
    },
    "links": {"name": "Screen in the hall", "expires": "2036-05-02T00:00:00.000000Z"},
    "apps": {
        "title": "Festival app",
        "app_store": {"bundle_id": "com.example.festival", "app_store_id": "1234567890"},
        "build": {"general": {"website": "https://example.com", "support_email": "help@example.com"}},
        "config": {"is_login_required_at_startup": False, "cloud_settings": {"region": "europe-west1"}},
        "studio_app_profile": {"auth_methods": {"is_apple": True, "is_google": True}, "is_name_enabled": True},
        "toolbar": {"title": "Festival", "subtitle": "2026"},
        "tags": ["summer"],
    },
    "surveys": {
        "title": "How was it?",
        "start": "2026-07-02T20:00:00.000000Z",
        "fields": [{"id": "rating", "type": "stars"}],
        "settings": {
            "answer_mode": "normal",
            "auto_delete_answers_after_days": -1,
            "is_anonymous_enabled": True,
        },
    },
    "feeds": {
        "title": "News",
        "divider_height": 2,
        "inner_navigation": {
            "is_swipe_enabled": True,
            "location": "top",
            "navigation_block": {"is_scroll": True, "nav_list": []},
        },
        "tags": ["news"],
    },
    "articles": {
        "title": "Doors open at six",
        "description": "What to know before you come.",
        "content": [{"type": "text", "text": "Bring sunscreen."}],
        "tags": ["news"],
    },
    "files": {
        "filename": "lineup.pdf",
        "file_type": "application/pdf",
        "file_extension": "pdf",
        "description": "Who plays when.",
        "access": {"access": "private"},
    },
    "images": {"title": "Main stage", "access": {"access": "public"}},
}

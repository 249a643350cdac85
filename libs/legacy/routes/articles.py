"""Routes of articles in the legacy API."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, get_args

from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import ARTICLES
from libs.catalogue.schemas.content import ArticleType
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.parameters.articles import ARTICLE, SHAPE, article_written, is_listed
from libs.legacy.parameters.translator import JsonSchema
from libs.legacy.records import Filter
from libs.legacy.routes.embedding import shown_articles
from libs.legacy.routes.parameter_parsing import BOOLEANS
from libs.legacy.routes.resource_handlers import UPDATE, ResourceHandlers
from libs.legacy.routes.route_builder import NEXT, Call

TYPES: Final = get_args(ArticleType)
FLAGS: Final = ("scheduled", "is_template")


class Articles(ResourceHandlers):
    name, several, one = "article", "/v2/articles", "/v2/articles/{article_key}"
    row, translator, shape = ARTICLES, ARTICLE, SHAPE
    written = staticmethod(article_written)
    query: ClassVar[Mapping[str, JsonSchema]] = {
        "scheduled": {
            "type": "boolean",
            "default": False,
            "description": "Only scheduled articles; `is_template` and `type` are ignored then.",
        },
        "is_template": {"type": "boolean", "default": False, "description": "Only templates."},
        "type": {"type": "string", "enum": list(TYPES), "description": "Only articles of this type."},
        "next": NEXT,
    }
    docs: ClassVar[Mapping[str, str]] = {
        "list": "Newest first, 20 a page. Scheduled articles and templates have their own lists.",
        "create": "A `publish` in the future makes it scheduled; without one, it appears at once. `type` defaults "
        "to normal.",
        "get": "Includes the images, contests, surveys and participants that it refers to, without deleted ones.",
        "update": f"{UPDATE} A draft is replaced as a whole.",
        "delete": "Refused while other records refer to it.",
    }

    def filter(self, call: Call) -> Filter:
        """Parse the query. Raises `ValidationFailed` with all faults."""
        kind, now = call.query("type"), self.environment.now()
        flags = [BOOLEANS.get(call.query(name) or "false") for name in FLAGS]
        problems = [
            Problem("", f"{name} must be true or false", name)
            for name, flag in zip(FLAGS, flags, strict=True)
            if flag is None
        ]
        scheduled, is_template = (flag is True for flag in flags)
        if kind is not None and kind not in TYPES and not scheduled:
            problems.append(Problem("", f"type must be one of {', '.join(TYPES)}", "type"))
        if problems:
            raise ValidationFailed(problems, "; ".join(problem.message for problem in problems))
        return lambda stored: is_listed(stored, now, scheduled, is_template, kind)

    async def shown(self, call: Call, records: Sequence[Stored]) -> list[Document]:
        return await shown_articles(self.environment, call, records)

"""Routes of articles in the legacy API."""

from functools import partial
from typing import Final, get_args

from libs.catalogue.resource import Document
from libs.catalogue.resources import ARTICLES
from libs.catalogue.schemas.content import ArticleType
from libs.contracts.catalogue import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.legacy.routes.embedding import shown_articles
from libs.legacy.routes.routing import NEXT, Call, LegacyEnvironment, LegacyRoutes, page_of
from libs.legacy.translators.articles import ARTICLE, article_written, is_listed
from libs.legacy.translators.fields import JsonSchema
from libs.legacy.translators.models import LegacyArticle, LegacyArticles

TYPES: Final = get_args(ArticleType)
QUERY: Final[dict[str, JsonSchema]] = {
    "scheduled": {
        "type": "boolean",
        "default": False,
        "description": "Only scheduled articles; `is_template` and `type` are ignored then.",
    },
    "is_template": {"type": "boolean", "default": False, "description": "Only templates."},
    "type": {"type": "string", "enum": list(TYPES), "description": "Only articles of this type."},
    "next": NEXT,
}


def add_articles(routes: LegacyRoutes, environment: LegacyEnvironment) -> None:
    handlers = _Articles(environment)
    several, one = "/v2/articles", "/v2/articles/{article_key}"
    routes.add("GET", several, handlers.list_articles, query=QUERY, model=LegacyArticles)
    routes.add("POST", several, handlers.create_article, parameters=ARTICLE.parameters, model=LegacyArticle)
    routes.add("GET", one, handlers.get_article, model=LegacyArticle)
    routes.add("POST", one, handlers.update_article, parameters=ARTICLE.parameters, model=LegacyArticle)
    routes.add("DELETE", one, handlers.delete_article)


class _Articles:
    def __init__(self, environment: LegacyEnvironment) -> None:
        self._environment = environment
        self._records = environment.records(ARTICLES, ARTICLE)

    async def list_articles(self, call: Call) -> Document:
        """Newest first, 20 a page. Scheduled articles and templates have their own lists."""
        now, kind = self._environment.now(), call.query("type")
        scheduled, is_template = call.flag("scheduled"), call.flag("is_template")
        if kind is not None and kind not in TYPES and not scheduled:
            raise ValidationFailed([Problem("", f"type must be one of {', '.join(TYPES)}")])

        def fits(stored: Stored) -> bool:
            return is_listed(stored, now, scheduled, is_template, kind)

        page = await self._records.page(call.account, call.query("next"), fits=fits)
        return page_of("articles", await shown_articles(self._environment, call, page.records), page)

    async def create_article(self, call: Call) -> Document:
        """A `publish` in the future makes it scheduled; without one, it appears at once. `type` defaults to
        normal.
        """
        body = await call.parameters(ARTICLE.parameters)
        stored = await self._records.create(call.account, partial(article_written, body))
        return await self._answer(call, stored)

    async def get_article(self, call: Call) -> Document:
        """Includes the images, contests, surveys and participants that it refers to, without deleted ones."""
        return await self._answer(call, await self._records.get(call.account, call.path("article_key")))

    async def update_article(self, call: Call) -> Document:
        """Takes the parameters of create; those left out keep their value. A draft is replaced as a whole."""
        body, key = await call.parameters(ARTICLE.parameters), call.path("article_key")
        stored = await self._records.change(call.account, key, partial(article_written, body))
        return await self._answer(call, stored)

    async def delete_article(self, call: Call) -> None:
        """Refused while other records refer to it."""
        await self._records.delete(call.account, call.path("article_key"))

    async def _answer(self, call: Call, stored: Stored) -> Document:
        [shape] = await shown_articles(self._environment, call, [stored])
        return shape

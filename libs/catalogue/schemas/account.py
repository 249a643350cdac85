"""Schema of an account's settings, of which there is one record."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from libs.catalogue.api_examples import EXAMPLES
from libs.catalogue.schemas.base import Members, Record
from libs.catalogue.schemas.style import Colour

BrandName = Annotated[str, Field(min_length=1, max_length=256)]


class Looks(Members):
    """The looks of the account's pages."""

    logo_key: str | None = Field(None, description="Key of an image: the logo.")
    primary_color: Colour | None = Field(None, description="Colour of buttons and links.")
    secondary_color: Colour | None = Field(None, description="Secondary colour.")
    background_color: Colour | None = Field(None, description="Colour of the pages.")
    text_color: Colour | None = Field(None, description="Colour of the text.")


class AccountSettings(Record):
    """The settings of an account, which the legacy API calls a brand."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["accounts"]]})
    ignored: ClassVar[frozenset[str]] = Record.ignored | {"account"}

    brand_name: BrandName | None = Field(
        None, description="Name of the account's brand, as legacy records show it; unset: the account's own name."
    )
    image_key: str | None = Field(None, description="Key of an image: the brand's, as legacy records show it.")
    looks: Looks = Field(default_factory=Looks, description="Logo and colours of the account's pages.")

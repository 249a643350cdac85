"""Schemas of an app (its build, appearance and log-in), of shops, and of an account's settings."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from libs.catalogue.api_examples import EXAMPLES
from libs.catalogue.schemas.base import (
    Address,
    Count,
    CustomData,
    FreeForm,
    Icon,
    Items,
    Key,
    Line,
    Linked,
    Members,
    Navigation,
    Parts,
    Picture,
    Record,
    ServerTime,
    Style,
    Tags,
    Texts,
    Title,
)
from libs.catalogue.schemas.content import Colour
from libs.contracts.limits import DESCRIPTION

Part = Annotated[FreeForm, Field(description="Free-form.")]
Url = Annotated[Address | None, Field(description="A URL.")]


class AppStore(Members):
    bundle_id: Line | None = Field(None, description="The app's bundle identifier.")
    app_store_id: Line | None = Field(None, description="The app's id in the App Store.")
    access_key: Line | None = Field(None, description="Access key of the App Store.")


class Splash(Members):
    splash_image: Part = Field({})
    background: Part = Field({})
    background_style: Style = Field({})
    foreground: Part = Field({})
    foreground_style: Style = Field({})
    style: Style = Field({})


class General(Members):
    website: Url = None
    support_email: Address | None = Field(None, description="E-mail address for users' support requests.")
    support_url: Url = None
    terms_url: Url = None
    privacy_policy_url: Url = None


class Build(Members):
    splash: Splash = Field(default_factory=Splash, description="The screen shown while the app starts.")
    firebase_project: Part = Field({})
    android: Part = Field({})
    ios: Part = Field({})
    general: General = Field(default_factory=General, description="The app's entry in the stores.")


class CloudSettings(Members):
    ignored: ClassVar[frozenset[str]] = frozenset()

    region: Line | None = Field(None, description="Region of the app's cloud services.")
    updated: ServerTime = Field(None, description="Time of the last change to the cloud settings.")


class Config(Members):
    app_wide_topic: Part = Field({})
    is_contest_firebase_connection: bool = Field(False, description="Contests are connected to Firebase.")
    is_data_service_enabled: bool = Field(False, description="The data service is used.")
    is_login_required_at_startup: bool = Field(False, description="Users must log in when the app starts.")
    cloud_settings: CloudSettings = Field(default_factory=CloudSettings, description="The app's cloud services.")


class AuthMethods(Members):
    is_apple: bool = Field(False, description="Users may log in with Apple.")
    is_email: bool = Field(False, description="Users may log in by e-mail.")
    is_facebook: bool = Field(False, description="Users may log in with Facebook.")
    is_google: bool = Field(False, description="Users may log in with Google.")
    is_sms: bool = Field(False, description="Users may log in by text message.")


class StudioAppProfile(Members):
    auth_methods: AuthMethods = Field(
        default_factory=AuthMethods, description="The login methods offered to users."
    )
    firebase_project_key: Line | None = Field(None, description="Key of the users' Firebase project.")
    provider_key: Line | None = Field(None, description="Key of the login provider.")
    is_age_enabled: bool = Field(False, description="Profiles have an age.")
    is_auto_profile_image_enabled: bool = Field(False, description="Profiles get an image automatically.")
    is_city_enabled: bool = Field(False, description="Profiles have a city.")
    is_email_enabled: bool = Field(False, description="Profiles have an e-mail address.")
    is_forgot_your_password_enabled: bool = Field(False, description="Users can reset a forgotten password.")
    is_gender_enabled: bool = Field(False, description="Profiles have a gender.")
    is_logout_enabled: bool = Field(False, description="Users can log out.")
    is_name_enabled: bool = Field(False, description="Profiles have a name.")
    is_profile_enabled: bool = Field(False, description="Users have a profile.")
    is_profile_image_enabled: bool = Field(False, description="Profiles have an image.")
    login: Part = Field({})
    profile: Part = Field({})
    provider: Part = Field({})
    register_: Part = Field({}, alias="register")


class Toolbar(Members):
    image: Picture = Field(Linked())
    style: Style = Field({})
    subtitle: Line | None = Field(None, description="The line below the title.")
    title: Title = None


class App(Record):
    """The configuration of a mobile app."""

    title: Title = None
    consent_setup: Annotated[str, DESCRIPTION] | None = Field(
        None, description="The consent dialog's configuration."
    )
    master_shop_key: Key | None = Field(None, description="Key of a master shop.")
    app_store: AppStore = Field(default_factory=AppStore, description="The app's entry in the App Store.")
    build: Build = Field(default_factory=Build, description="The app's build settings.")
    config: Config = Field(default_factory=Config, description="The app's runtime settings.")
    studio_app_profile: StudioAppProfile = Field(
        default_factory=StudioAppProfile, description="Login methods and members of user profiles."
    )
    toolbar: Toolbar = Field(default_factory=Toolbar, description="The toolbar at the top.")
    default_nav_item: Part = Field({})
    google_play: Part = Field({})
    image: Picture = Field(Linked())
    custom_data: CustomData = Field({})
    screens: Items = Field([], description="The app's screens; free-form.")
    tags: Tags = Field([])


BrandName = Annotated[str, Field(min_length=1, max_length=256)]


class Looks(Members):
    """The looks of the account's pages."""

    logo_key: Key | None = Field(None, description="Key of an image: the logo.")
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
    image_key: Key | None = Field(None, description="Key of an image: the brand's, as legacy records show it.")
    looks: Looks = Field(default_factory=Looks, description="Logo and colours of the account's pages.")


class Button(Members):
    text: Line | None = Field(None, description="The button's text.")
    icon: Icon = Field({})
    style: Style = Field({})


class Package(Members):
    """A package of votes, or a subscription."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    key: Key | None = Field(None, description="Set by the server; in a request it identifies an existing package.")
    created: ServerTime = Field(None, description="Time when the package was added.")
    updated: ServerTime = Field(None, description="Time of the package's last change.")
    title: Title = None
    package_type: Line | None = Field(None, description="Type, such as `permanent`.")
    price: Count | None = Field(None, description="Price in the smallest unit of the currency.")
    vote_count: Count | None = Field(None, description="Number of votes in the package.")
    sub_months: Count | None = Field(None, description="Length of a subscription in months.")
    after_purchase_navigation: Navigation = Field({})


class Shop(Record):
    """Sells vote packages or subscriptions."""

    title: Title = None
    article: Key | None = Field(None, description="Key of an article.")
    currency: Line | None = Field(None, description="A currency code.")
    currency_symbol: Line | None = Field(None, description="The currency's displayed symbol.")
    currency_template: Line | None = Field(
        None, description="Placeholders: `{currency_symbol}`, `{price}`; other text in braces is kept."
    )
    title_template: Line | None = Field(
        None, description="Placeholder: `{participant_title}`; other text in braces is kept."
    )
    description_template: Line | None = Field(
        None, description="Placeholder: `{user_name}`; other text in braces is kept."
    )
    receipt_description_template: Line | None = Field(
        None, description="Placeholder: `{get_votes_count}`; other text in braces is kept."
    )
    is_login_required: bool = Field(False, description="Only users who are logged in can buy.")
    shop_type: Line | None = Field(None, description="Type, such as `participant_vote`.")
    payment_methods: Texts = Field([], description="Such as `google_play`, `app_store`, `stripe`.")
    stripe_statement_descriptor_suffix: Line | None = Field(None, description="Shown on a buyer's bank statement.")
    ok_button: Button = Field(default_factory=Button, description="The button that buys.")
    cancel_button: Button = Field(default_factory=Button, description="The button that cancels.")
    image: Picture = Field(Linked())
    style: Style = Field({})
    custom_data: CustomData = Field({})
    packages: Parts[Package] = Field([], description="The packages on sale. A package's key never changes.")

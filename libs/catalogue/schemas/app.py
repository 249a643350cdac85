"""An app: how it is built, what it shows, who may log in."""

from typing import ClassVar

from pydantic import Field

from libs.catalogue.schemas.base import FreeForm, Items, Members, Record, Timestamp


class AppStore(Members):
    bundle_id: str | None = None
    app_store_id: str | None = None
    access_key: str | None = None


class Splash(Members):
    splash_image: FreeForm = Field({})
    background: FreeForm = Field({})
    background_style: FreeForm = Field({})
    foreground: FreeForm = Field({})
    foreground_style: FreeForm = Field({})
    style: FreeForm = Field({})


class General(Members):
    website: str | None = None
    support_email: str | None = None
    support_url: str | None = None
    terms_url: str | None = None
    privacy_policy_url: str | None = None


class Build(Members):
    splash: Splash = Field(default_factory=Splash)
    firebase_project: FreeForm = Field({})
    android: FreeForm = Field({})
    ios: FreeForm = Field({})
    general: General = Field(default_factory=General)


class CloudSettings(Members):
    """`updated` is the server's: when the rest of this was changed last."""

    ignored: ClassVar[frozenset[str]] = frozenset()

    region: str | None = None
    updated: Timestamp | None = None


class Config(Members):
    app_wide_topic: FreeForm = Field({})
    is_contest_firebase_connection: bool = False
    is_data_service_enabled: bool = False
    is_login_required_at_startup: bool = False
    cloud_settings: CloudSettings = Field(default_factory=CloudSettings)


class AuthMethods(Members):
    is_apple: bool = False
    is_email: bool = False
    is_facebook: bool = False
    is_google: bool = False
    is_sms: bool = False


class StudioAppProfile(Members):
    auth_methods: AuthMethods = Field(default_factory=AuthMethods)
    firebase_project_key: str | None = None
    provider_key: str | None = None
    is_age_enabled: bool = False
    is_auto_profile_image_enabled: bool = False
    is_city_enabled: bool = False
    is_email_enabled: bool = False
    is_forgot_your_password_enabled: bool = False
    is_gender_enabled: bool = False
    is_logout_enabled: bool = False
    is_name_enabled: bool = False
    is_profile_enabled: bool = False
    is_profile_image_enabled: bool = False
    login: FreeForm = Field({})
    profile: FreeForm = Field({})
    provider: FreeForm = Field({})
    register_: FreeForm = Field({}, alias="register")


class Toolbar(Members):
    image: FreeForm = Field({})
    style: FreeForm = Field({})
    subtitle: str | None = None
    title: str | None = None


class App(Record):
    """The configuration of a mobile app."""

    title: str | None = None
    consent_setup: str | None = None
    master_shop_key: str | None = None
    app_store: AppStore = Field(default_factory=AppStore)
    build: Build = Field(default_factory=Build)
    config: Config = Field(default_factory=Config)
    studio_app_profile: StudioAppProfile = Field(default_factory=StudioAppProfile)
    toolbar: Toolbar = Field(default_factory=Toolbar)
    default_nav_item: FreeForm = Field({})
    google_play: FreeForm = Field({})
    image: FreeForm = Field({}, description="`key` names an image.")
    style: FreeForm = Field({})
    custom_data: FreeForm = Field({}, description="Free-form.")
    screens: Items = Field([])
    tags: list[str] = Field([])

"""The base of all settings: environment variables with the prefix `TALLY_`.

`TALLY_X_FILE` names a file that holds the value of `TALLY_X`, as orchestrators mount secrets. Kubernetes adds
variables that describe its services to the environment; of a service named `tally-...` they have the same prefix.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from libs.telemetry.redaction import SecretUrl

S = TypeVar("S", bound=BaseSettings)
PREFIX: Final = "TALLY_"
BAD_USAGE: Final = 2
"""Exit status of a process with wrong settings."""
OF_FILE: Final = "_FILE"
"""Suffix of a variable that names a file with the value."""
_LINK: Final = re.compile(
    r"(?P<service>\w+?)_(?P<rest>SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)", re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://")


class EnvironmentSettings(BaseSettings):
    """Settings from the environment. An empty variable is an absent one."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", hide_input_in_errors=True, defer_build=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        assert isinstance(env_settings, EnvSettingsSource)
        env_settings.env_vars = read_variables(env_settings.env_vars, settings_cls.model_fields)
        return init_settings, env_settings


def read_settings(settings: type[S]) -> S:
    """Return a process's settings; exits with status 2 and one line on standard error if some are wrong."""
    try:
        return settings()
    except ValidationError as error:
        print(f"Error: {describe_problems(error)}", file=sys.stderr)
        sys.exit(BAD_USAGE)


def variable_of(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def read_variables(environment: Mapping[str, str | None], fields: Iterable[str]) -> dict[str, str | None]:
    """Return the environment, names in lower case, without link variables, and with the values from files.

    Raises `ValidationError` for a file that cannot be read, or a value that is given twice.
    """
    links = link_variables(environment)
    found = {name.lower(): value for name, value in environment.items() if name not in links}
    problems: list[InitErrorDetails] = []
    for field in fields:
        variable = variable_of(field).lower()
        path = found.get(variable + OF_FILE.lower())
        if not path:
            continue
        try:
            if found.get(variable):
                raise ValueError(f"{variable_of(field)} is set, too")
            found[variable] = _content(Path(path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            kind = PydanticCustomError("file", "{path}: {reason}", {"path": path, "reason": reason})
            problems.append(InitErrorDetails(type=kind, loc=(field + OF_FILE.lower(),), input=path))
    if problems:
        raise ValidationError.from_exception_data("settings", problems, hide_input=True)
    return found


def link_variables(environment: Mapping[str, str | None]) -> set[str]:
    """Return the names of the variables by which Kubernetes describes its services.

    A `<SERVICE>_PORT` is one if it holds an address such as tcp://10.96.0.7:80; a number there is a setting.
    """
    named = {name: match for name in environment if (match := _LINK.fullmatch(name))}
    addresses = {name for name in named if _ADDRESS.match(environment[name] or "")}
    services = {named[name]["service"].upper() for name in addresses}
    return {
        name
        for name, match in named.items()
        if match["service"].upper() in services and (name in addresses or match["rest"].upper() != "PORT")
    }


def describe_problems(error: ValidationError) -> str:
    """Return one line that names each wrong setting and says what to do, without its value."""
    reasons = []
    for problem in error.errors(include_url=False, include_input=False):
        name = variable_of("_".join(map(str, problem["loc"]))) if problem["loc"] else ""
        message = problem["msg"].removeprefix("Value error, ").rstrip(".")
        reasons.append(f"{name}: {message}" if name else message)
    return f"{'; '.join(reasons)}. Correct or unset it; `tally config show` lists all settings."


def _content(path: Path) -> str:
    content = path.read_text().rstrip("\r\n")
    if not content:
        raise ValueError("the file is empty")
    return content


def known_variables(classes: Iterable[type[BaseSettings]]) -> set[str]:
    """Return the variables that set a field of these classes, by value or by file."""
    of_fields = {variable_of(field) for each in classes for field in each.model_fields}
    return of_fields | {name + OF_FILE for name in of_fields}


Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(str.lower)]


def _is_http(url: SecretUrl) -> SecretUrl:
    if not re.fullmatch("(https?://.+)?", url.get_secret_value()):
        raise ValueError("must begin with http:// or https://")
    return url


class TelemetrySettings(EnvironmentSettings):
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of logs; auto is text on a terminal, JSON elsewhere."
    )
    log_level: Level = Field("info", description="Minimum log level: debug, info, warning, error, critical.")
    traces_url: Annotated[SecretUrl, AfterValidator(_is_http)] = Field(
        SecretUrl(""),
        description="URL for traces (OTLP over HTTP), such as http://collector:4318/v1/traces; empty: "
        "OpenTelemetry's own variables decide (OTEL_EXPORTER_OTLP_ENDPOINT, ...), or none.",
    )
    traces_ratio: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Fraction of requests that are traced, unless a trusted proxy's traceparent decides.",
    )

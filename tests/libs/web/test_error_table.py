"""Every error type has a row in the table of HTTP answers, or a reason to have none."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import libs
import services
from libs.tally.errors import LimitReached, LimitScope, TallyError
from libs.web.errors import TABLE

COMMAND = "raised by a command of `tally` only, which prints it"
GUARDED = "stops the projector or a command; services answer `log_unavailable` with it as the cause"
NO_ROW = {
    "libs.kafka.errors.LogChanged": GUARDED,
    "libs.kafka.errors.TopicMissing": GUARDED,
    "libs.kafka.errors.WrongTopic": GUARDED,
    "libs.deployment.identity.WrongStore": GUARDED,
    "libs.audit.comparison.ProcessKilled": COMMAND,
    "libs.audit.sealed_contest.LogDiffers": COMMAND,
    "libs.audit.sealed_contest.NotInSet": COMMAND,
    "libs.backup.manifest.ExportRefused": COMMAND,
    "libs.backup.manifest.ImportRefused": COMMAND,
    "libs.certificates.service.CertificateConflict": COMMAND,
    "libs.monitoring.quarantine.CouldBeProcessed": COMMAND,
    "libs.monitoring.quarantine.DroppedAnother": COMMAND,
    "libs.storage.secret_rings.SecretWaits": COMMAND,
    "libs.views.generations.generations.FencesDiffer": COMMAND,
    "services.cli.commands.dashboard.NotLoggedIn": COMMAND,
    "services.cli.commands.demo.sample_contest.DemoFailed": COMMAND,
    "libs.kafka.errors.LogShortened": "the projector lets the view begin again",
    "services.projector.supervision.PartFailed": "reported by the projector's health check only, as text",
}
"""Errors that no HTTP request ends in, with the reason."""


def error_types() -> dict[str, type[TallyError]]:
    """Return the subclasses of `TallyError` in all modules of libs and services, by qualified name."""
    for package in (libs, services):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                import_module(module.name)
    return {
        f"{error.__module__}.{error.__qualname__}": error
        for error in _subclasses(TallyError)
        if error.__module__.startswith(("libs.", "services."))
    }


def _subclasses(error: type[TallyError]) -> Iterator[type[TallyError]]:
    for subclass in error.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def codes(error: type[TallyError]) -> set[str]:
    """Return the codes of an error type; only a `LimitReached` gets its code when it is raised."""
    if issubclass(error, LimitReached):
        return {error(scope, 1, 1).code for scope in LimitScope}
    return {error.code}


def test_every_error_type_has_a_row_in_the_table_or_a_reason_to_have_none() -> None:
    answered = TABLE.keys() - {TallyError.code}
    without_row = {name for name, error in error_types().items() if not codes(error) <= answered}
    assert without_row == set(NO_ROW)


def test_every_row_of_the_table_answers_an_error_type() -> None:
    raised = {code for error in error_types().values() for code in codes(error)}
    assert TABLE.keys() - {TallyError.code} <= raised

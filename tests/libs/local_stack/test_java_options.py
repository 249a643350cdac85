"""The options of Kafka's Java process."""

import os
import subprocess

from libs.local_stack import java
from libs.local_stack.kafka import JVM_OPTIONS


def test_the_language_is_english_whatever_the_machine_s_is() -> None:
    """In Turkish Kafka does not find its own names: the upper case of "classic" has another I."""
    turkish = os.environ | {
        "LC_ALL": "tr_TR.UTF-8",
        "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR",
    }
    command = [str(java.find()), *JVM_OPTIONS, "-XshowSettings:locale", "-version"]
    done = subprocess.run(command, env=turkish, capture_output=True, text=True, check=True)
    assert "default locale = English (United States)" in done.stderr + done.stdout

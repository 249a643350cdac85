"""Runs `tally up`'s foreground over real servers and stand-in parts: `run_tally_up.py <data dir>`."""

import asyncio
import sys
from pathlib import Path

from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Supervisor
from services.cli.commands.up import run
from tests.support.servers.stand_in_services import GATEWAY, PROJECTOR, RecordingPreparation

settings = StackSettings(data_dir=Path(sys.argv[1]), stack="native", kafka_bootstrap_servers=None, valkey_url=None)
report = Report()
supervisor = Supervisor(settings, RecordingPreparation(), port=0, parts=(PROJECTOR, GATEWAY), report=report)
sys.exit(asyncio.run(run(supervisor, report)))

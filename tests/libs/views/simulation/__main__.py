"""`python -m tests.libs.views.simulation --seeds 100000 --backend model`: runs schedules, prints failing seeds."""

import argparse
import time
import uuid

from redis import Redis

from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua_ledger import LuaLedger, load
from tests.libs.views.simulation.model_ledger import ModelLedger
from tests.libs.views.simulation.schedule import run
from tests.libs.views.simulation.simulated_system import Violation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--backend", choices=["model", "lua"], default="model")
    parser.add_argument("--valkey", default="redis://127.0.0.1:6379/0")
    options = parser.parse_args()
    namespace = f"simulation-{uuid.uuid4().hex[:8]}"
    redis = Redis.from_url(options.valkey)
    if options.backend == "lua":
        load(redis)
    failed, successes, started = [], 0, time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        ledger: Ledger = ModelLedger() if options.backend == "model" else LuaLedger(redis, namespace)
        try:
            successes += len(run(seed, ledger).successes)
        except Violation as violation:
            failed.append(seed)
            print(violation if len(failed) == 1 else str(violation).partition("\n")[0], flush=True)
        if isinstance(ledger, LuaLedger):
            ledger.clear()
    took = time.monotonic() - started
    print(f"{options.seeds} schedules, {successes} votes answered 200 or 201, {took:.0f} s; failed: {failed[:20]}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()

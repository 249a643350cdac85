"""Runs schedules, searches seeds that notice a mutation, shortens a failing schedule, or measures the power."""

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count, islice

from tests.simulation.faults import Streams
from tests.simulation.mutations import MUTATIONS
from tests.simulation.real_valkey import RealValkey, a_valkey
from tests.simulation.scenarios import seeds_like, some_scenario
from tests.simulation.schedule import Runner, shortest

CHUNK = 100
PROGRESS = 100


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="number of schedules")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--backend", choices=["model", "valkey"], default="model")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--find", choices=MUTATIONS, help="search the first seed that notices this mutation")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="shorten this failing schedule, and print it")
    parser.add_argument("--show", type=int, metavar="SEED", help="print this schedule")
    parser.add_argument("--mutation", choices=MUTATIONS, help="without which guard --shrink and --show run")
    parser.add_argument(
        "--power", action="store_true", help="measure the share of schedules that notice each mutation"
    )
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    runner = Runner(mutation=MUTATIONS[options.mutation] if options.mutation else None)
    if options.show is not None:
        print(runner.run(options.show).page())
    elif options.shrink is not None:
        result = shortest(runner, options.shrink)
        print(f"seed {options.shrink} keeps all promises" if result.violation is None else result.page())
    elif options.power:
        power(options.seeds, options.processes)
    elif options.find:
        found = next(noticing(options.find, seeds), None)
        print(f"{options.find}: no seed notices it" if found is None else f"{options.find}: seed {found}")
    else:
        sys.exit(search(seeds, options.processes, options.backend))


def noticing(name: str, seeds: Iterable[int]) -> Iterator[int]:
    """Yield the seeds that notice a mutation."""
    runner = Runner(mutation=MUTATIONS[name])
    for seed in seeds:
        if runner.run(seed).violation is not None:
            yield seed


def search(seeds: Sequence[int], processes: int, backend: str) -> int:
    """Run schedules; print the first that fails, and the seeds of all. Return how many fail."""
    began, done, failed, answers = time.monotonic(), 0, list[int](), Counter[str]()
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with multiprocessing.Pool(processes) as pool:
        for pages, counted, ran in pool.imap_unordered(partial(_search, backend), chunks):
            done += ran
            if done % PROGRESS == 0:
                print(f"{done} schedules, {time.monotonic() - began:.0f} s, {len(failed)} failed", flush=True)
            answers.update(counted)
            for seed, page in pages:
                if not failed:
                    print(page, flush=True)
                failed.append(seed)
                print(f"seed {seed}: {page.rpartition('BROKEN: ')[2][:300]}", flush=True)
    took = time.monotonic() - began
    kinds = ", ".join(f"{count} {kind}" for kind, count in answers.most_common())
    print(f"{done} schedules ({backend}) in {took:.0f} s: {kinds}")
    print(f"{len(failed)} failed: {sorted(failed)[:50]}" if failed else "no promise was broken")
    return bool(failed)


Found = tuple[list[tuple[int, str]], Counter[str], int]
"""Failing seeds with their pages, answers by their kind, and the number of schedules."""


def _search(backend: str, seeds: Sequence[int]) -> Found:
    return _run_all(Runner(), seeds) if backend == "model" else asyncio.run(_search_with_server(seeds))


async def _search_with_server(seeds: Sequence[int]) -> Found:
    databases = count()
    async with a_valkey() as url:
        runner = Runner(lambda: RealValkey(url, next(databases)))
        return await asyncio.to_thread(_run_all, runner, seeds)


def _run_all(runner: Runner, seeds: Sequence[int]) -> Found:
    pages, answers = [], Counter[str]()
    for seed in seeds:
        result = runner.run(seed)
        answers.update(type(answer.result).__name__ for answer in result.answers)
        if result.violation is not None:
            pages.append((seed, result.page()))
    return pages, answers, len(seeds)


def power(number: int, processes: int) -> None:
    """Print for each mutation its seed, the scenario of that, and how many of the scenario notice it."""
    print("| mutation | of | seed | scenario | noticed by |\n|---|---|---:|---|---:|")
    with multiprocessing.Pool(processes) as pool:
        for name, noticed in pool.imap(partial(_noticed, number), MUTATIONS):
            seed, where = MUTATIONS[name].seed, MUTATIONS[name].where.rpartition(".")[2]
            scenario = some_scenario(Streams(seed))
            print(f"| {name} | `{where}` | {seed} | {scenario or '-'} | {noticed} of {number} |", flush=True)


def _noticed(number: int, name: str) -> tuple[str, int]:
    return name, len(list(noticing(name, islice(seeds_like(MUTATIONS[name].seed), number))))


if __name__ == "__main__":
    main()

"""The promises about replays: what is kept or follows is as the log, and one generation is live everywhere."""

from typing import TYPE_CHECKING

from libs.tally.fold import PartitionTally
from libs.views.generations.generations import ProjectionName, State
from tests.simulation.answers import demand
from tests.simulation.comparison import described, described_view, differing
from tests.simulation.deployment import NAMESPACE
from tests.simulation.observer import observe
from tests.support.clients.vote_views import VoteViews

if TYPE_CHECKING:
    from tests.simulation.world import World


def check_other_votes(world: "World", partition: int, tally: PartitionTally) -> None:
    """The views before a replay, which may be swapped back in, and those that follow are as the fold, too."""
    generations = observe(world, world.projections[ProjectionName.VOTES].read(partition))
    for number, other in generations.others.items():
        if other.schema != generations.schema:
            continue  # nobody folds what was kept of the former version
        where = f"generation {number} of votes/{partition}"
        demand(other.state is not State.BROKEN, f"{where} is broken")
        if other.state is not State.BUILDING:
            views = VoteViews(world.observer, NAMESPACE, world.partitions, generation=number)
            view = observe(world, described_view(views, partition, set(world.kinds)))
            found = differing(view, described(tally))
            demand(not found, f"{where} and fold differ: {found}")


def check_generations(world: "World") -> None:
    """All partitions of rebuilt views are those of one replay; what is kept can be swapped back in."""
    if world.has_failed:
        return
    for name in {rebuild.projection for rebuild in world.rebuilds}:
        of_it = [rebuild for rebuild in world.rebuilds if rebuild.projection is name]
        found = observe(world, world.projections[name].read_all())
        if len(of_it) == 1 and not of_it[0].is_gone:
            numbers = {found[number].live.number for number in of_it[0].target.of(found)}
            demand(len(numbers) == 1, f"{name}: generations {numbers} are live")
            demand(of_it[0].number in (None, *numbers), f"{name}: {numbers} are live, not {of_it[0].number}")
        for number, partition in found.items():
            kept = [one for one in partition.others.values() if one.state is State.KEPT]
            demand(len(kept) < 2, f"{name}/{number} keeps {kept}")

"""Scenarios of votes: held, replaced, removed, voided, in batches, of one address, and bought."""

from libs.storage.secrets import account_secret_name
from tests.simulation.contests import PARTICIPANTS
from tests.simulation.deployment import ACCOUNT
from tests.simulation.stage import Stage


async def hold_a_vote(s: Stage) -> None:
    """A gateway is frozen, or killed, with a reservation until a fence ends it; another one is sent the id."""
    rng, vote = s.rng, s.vote()
    await s.warm(s.first, s.second)
    n = await s.fence_epoch()
    at, is_killed = rng.choice(["votes_reserve", "votes_reserve", "votes_confirm"]), rng.random() < 0.3
    await s.hold(vote, s.first, 1 if is_killed else 2, at)
    if is_killed:
        s.world.restart_later(s.first, rng.uniform(0.5, 5.0))
        await s.cast(s.vote("another"), s.second, 2)
        return
    await s.fenced(n)
    again = vote if rng.random() < 0.5 else s.vote(participant="b")
    match rng.choice(["refused", "lost", "repeated"]):
        case "refused":
            # it is pending when the first attempt is refused by the log
            await s.warm(s.second)
            await s.hold(again, s.second, 2)
            await s.thaw_amid(s.first, refused=1.0)
            await s.cast(s.vote("another"), s.first)
            s.thaw(s.second)
        case "lost":
            await s.thaw_amid(s.first, loss=1.0)
        case _:
            await s.cast(again, s.second, 3)
            s.thaw(s.first)


async def hold_a_removal(s: Stage) -> None:
    """A gateway is frozen with a removal, while an operator voids the vote; a fence ends it, or not."""
    rng, vote = s.rng, s.vote()
    await s.cast(vote, s.second, 3)
    await s.warm(s.first)
    n = await s.fence_epoch()
    frozen = s.freeze_at("votes_remove", s.first)
    removal = s.remove(vote, s.first, 2)
    await frozen
    await s.append(s.voiding(vote))
    if rng.random() < 0.6:
        await s.fenced(n)
        await s.pause(0.0, 0.3)
    s.thaw(s.first)
    await removal
    await s.remove(vote, s.second, 2)
    await s.append(s.restoring(vote))


async def append_twice(s: Stage) -> None:
    """Records of votes and removals are in the log twice, at offsets that their writers do not know."""
    with s.faulty(doubled=0.7):
        for number in range(4):
            vote = s.vote(f"vote{number}")
            await s.cast(vote, None, 2)
            if s.rng.random() < 0.5:
                await s.remove(vote)


async def void_and_restore(s: Stage) -> None:
    """Operations void and restore the same votes, also after the close; some are removed or refunded meanwhile."""
    rng = s.rng
    votes = [s.vote("free"), s.vote("paid", source="c-paid"), s.vote("other", "b")][: rng.choice([1, 2, 3])]
    await s.cast_in_turn(*votes)
    ends = rng.random() < 0.5
    if ends:
        await s.end_in(0.2, 1.5)
    for _ in range(rng.randrange(6, 14)):
        vote, operation = rng.choice(votes), rng.choice(["void0", "void0", "void1"])
        await s.append(s.voiding(vote, operation) if rng.random() < 0.5 else s.restoring(vote, operation))
        await s.pause(0.0, 0.7 if ends else 0.1)
        if rng.random() < 0.15:
            if vote.source == "c-paid":
                s.refund(vote)
            else:
                s.remove(vote)
    if ends:
        s.reopen(3.0)


async def replace_and_remove(s: Stage) -> None:
    """A vote of the former period is replaced and removed, while another one uses this period's allowance."""
    rng = s.rng
    first = s.vote("first")
    await s.warm(s.first)
    await s.cast(first, s.second, 3)
    await s.pause(1.02, 1.2)
    replacing, other = s.vote("replacing"), s.vote("other", "b")
    if rng.random() < 0.5:
        await s.hold(replacing, s.first)
        s.cast(other, s.second)
        s.remove(first, s.second)
        await s.pause(0.1, 0.5)
        s.thaw(s.first)
    else:
        held = s.freeze_at("votes_remove", s.first)
        s.remove(first, s.first)
        await held
        await s.cast(other, s.second)
        await s.hold(replacing, s.second)
        s.thaw(s.first)
        await s.pause(0.05, 0.2)
        s.thaw(s.second)


async def replace_pending(s: Stage) -> None:
    """A voter changes votes that are still pending, within the limits."""
    rng = s.rng
    await s.warm(s.first, s.second)
    if rng.random() < 0.5:
        await s.cast(s.vote("folded"), s.second, 3)
    s.freeze_at("votes_reserve", s.first, rng.uniform(0.2, 1.5))
    s.cast(s.vote("pending"), s.first)
    for number in range(4):
        await s.pause(0.01, 0.2)
        s.cast(s.vote(f"vote{number}", rng.choice(PARTICIPANTS)), s.second)


async def hold_over_two_periods(s: Stage) -> None:
    """A reservation is pending while allowance periods pass."""
    await s.warm(s.first, s.second)
    await s.hold(s.vote("held"), s.first)
    await s.pause(1.0, 1.03)
    s.cast(s.vote("next"), s.second)
    await s.pause(1.0, 1.1)
    s.cast(s.vote("after"), s.second)
    await s.pause(0.02, 0.2)
    s.thaw(s.first)


async def share_an_address(s: Stage) -> None:
    """Requests of one address are sent at once, two of them with one vote id; some are refused by the log."""
    rng = s.rng
    await s.warm(s.first, s.second)
    vote = s.vote(votes=rng.choice([1, 3]), address="home")
    again = vote if rng.random() < 0.5 else s.vote(votes=rng.choice([1, 3]), address="home")
    if len(s.world.deployment.servers) > 1:
        await s.hold(vote, s.first, at="address_take")
        await s.cast(again, s.second)
        s.thaw(s.first)
    elif rng.random() < 0.5:
        both = [s.freeze_at("votes_reserve", gateway) for gateway in (s.first, s.second)]
        s.cast(vote, s.first)
        s.cast(again, s.second)
        for held in both:
            await held
        await s.thaw_amid(s.first, refused=1.0)
        s.thaw(s.second)
    else:
        s.cast(vote, s.first)
        s.cast(again, s.second)
    await s.pause(0.2, 0.4)
    for name in s.others[:4]:
        await s.cast(s.vote(voter=name, address="home"), None, 2)


async def vote_in_batches(s: Stage) -> None:
    """Requests have several votes of one voter, of which some take more calls than others."""
    for number in range(5):
        address, other = s.rng.choice([("home", None), (None, "home"), ("home", "office")])
        first = s.vote(f"vote{number}", both=s.rng.random() < 0.5, address=address)
        s.batch([first, s.vote(f"then{number}", address=other)])
        await s.pause(0.1, 0.5)


async def buy_and_refund(s: Stage) -> None:
    """Votes are bought and refunded while projectors are killed and frozen, and the server is replaced."""
    rng = s.rng
    for number in range(7):
        projector = rng.choice(s.world.projectors)
        match rng.randrange(6):
            case 0 | 1 | 2:
                what = rng.choice(["append", "votes_reserve", "votes_confirm", "votes_remove"])
                s.freeze_at(what, projector, rng.uniform(0.3, 3.0))
            case 3:
                s.world.restart_later(projector, rng.uniform(0.1, 1.0))
            case 4:
                s.fail(None, 0.0, "restart")
        s.buy(f"bought {number}")
        await s.pause(0.0, 0.8)


async def reject_what_was_bought(s: Stage) -> None:
    """What votes were bought for is rejected or deleted, and perhaps approved again, while projectors stumble."""
    rng = s.rng
    for number in range(3):
        s.buy(f"bought {number}")
        await s.pause(0.2, 0.5)
    if rng.random() < 0.5:
        s.freeze_at("purchases_with_bought", rng.choice(s.world.projectors), rng.uniform(0.3, 3.0))
    await s.set_statuses("rejected")
    await s.pause(0.0, 2.5)
    match rng.randrange(3):
        case 0:
            s.world.restart_later(rng.choice(s.world.projectors), rng.uniform(0.1, 1.0))
            await s.set_statuses("approved")
        case 1:
            await s.delete()
    s.cast(s.vote("after"), None, 2)


async def lose_a_secret(s: Stage) -> None:
    """The account's secret is away when a projector starts, which makes another one; then it is restored."""
    objects, name = s.world.deployment.objects, account_secret_name(ACCOUNT)
    s.buy("first")
    await s.pause(0.3, 0.6)
    if name not in objects or not s.world.is_alone:
        return  # a gateway that is killed meanwhile would record by the other one
    kept = objects.pop(name)
    s.restart_projectors()
    s.buy("second")
    await s.pause(1.0, 3.0)
    objects[name] = kept
    s.restart_projectors()
    await s.pause(0.5, 1.0)
    s.buy("third")


async def refuse_a_purchase(s: Stage) -> None:
    """A purchase is refused by one projector, while another one is frozen on the way to cast its votes."""
    s.buy("first")
    await s.pause(0.5, 0.8)
    topic = s.world.deployment.purchases_topic
    manager, log = s.projector_of(topic, 0), s.world.deployment.log(topic, 0).records
    folded = s.call("purchases_apply", manager)
    s.buy("second")
    await folded
    await s.freeze_at("purchases_list", manager)
    await s.set_statuses("rejected")
    before = len(log)
    await s.until(lambda: len(log) > before, 7.0)
    await s.set_statuses("approved")
    s.thaw(manager)

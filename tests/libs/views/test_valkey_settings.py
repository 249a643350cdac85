"""The address of Valkey: one server, or several of a cluster."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from libs.views.valkey.client import Coalescer
from libs.views.valkey.cluster_client import ClusterClient
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.settings import ValkeySettings, address_of, server_urls, with_address


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("redis://h/0", ["redis://h/0"]),
        ("redis://u:p%2C@h:1,other:2/0", ["redis://u:p%2C@h:1/0", "redis://u:p%2C@other:2/0"]),
        ("rediss://[::1]:1,[::2]:2", ["rediss://[::1]:1", "rediss://[::2]:2"]),
        ("unix:///run/valkey.sock", ["unix:///run/valkey.sock"]),
    ],
)
async def test_several_servers_are_those_of_a_cluster(url: str, servers: list[str]) -> None:
    assert server_urls(url) == servers
    client = open_valkey(url)
    assert isinstance(client, ClusterClient if len(servers) > 1 else Coalescer)
    await client.close()


@pytest.mark.parametrize("url", ["redis://h:1,other:port", "redis://h:1,other:70000", "http://h:1,other:2"])
def test_a_wrong_address_among_several_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="must be like"):
        ValkeySettings(valkey_url=url)


def test_another_server_has_the_same_user() -> None:
    assert with_address("redis://u:p@h:1/0", "::1", 7) == "redis://u:p@[::1]:7/0"
    assert address_of(with_address("redis://u:p@h:1/0", "other", 7)) == ("other", 7)

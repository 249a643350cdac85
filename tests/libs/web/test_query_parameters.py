"""What is cached by a caller's query is bounded in number and in size."""

from libs.web.door.query_parameters import MOST_CACHED_BYTES, cached_by_query


def test_short_queries_are_parsed_once_and_long_ones_are_not_kept() -> None:
    parsed: list[bytes] = []

    @cached_by_query
    def parse(query: bytes, end: int) -> int:
        parsed.append(query)
        return len(query) + end

    for query in (b"a=1", b"a" * MOST_CACHED_BYTES):
        assert [parse(query, 1) for _ in range(3)] == [len(query) + 1] * 3
    assert len(parsed) == 2
    long = b"a" * (MOST_CACHED_BYTES + 1)
    assert [parse(long, 1) for _ in range(3)] == [len(long) + 1] * 3
    assert len(parsed) == 5

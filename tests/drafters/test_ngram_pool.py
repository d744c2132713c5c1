from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.drafters.ngram_pool import NgramPool

NGRAMS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=60)


@given(NGRAMS, st.integers(1, 4))
def test_each_first_token_keeps_the_last_inserted_n_grams(ngrams, capacity):
    pool = NgramPool(capacity)
    for ngram in ngrams:
        pool.insert(ngram)
    for first in range(4):
        newest_first = list(dict.fromkeys(ngram for ngram in reversed(ngrams) if ngram[0] == first))
        expected = newest_first[:capacity][::-1]
        assert pool.after(first) == [ngram[1:] for ngram in expected]


@given(NGRAMS, st.integers(1, 4))
def test_the_changes_alone_rebuild_the_pool(ngrams, capacity):
    pool, rebuilt = NgramPool(capacity), defaultdict(list)
    for ngram in ngrams:
        for change in pool.insert(ngram):
            entries = rebuilt[change.ngram[0]]
            if change.kind != "added":
                entries.remove(change.ngram)
            if change.kind != "evicted":
                entries.append(change.ngram)
    for first in range(4):
        assert pool.after(first) == [ngram[1:] for ngram in rebuilt[first]]


def test_an_n_gram_inserted_again_outlives_an_older_one():
    pool = NgramPool(2)
    changes = [change for ngram in ([5, 1], [5, 2], [5, 1], [5, 3]) for change in pool.insert(ngram)]
    assert [(change.kind, change.ngram) for change in changes] == [
        ("added", (5, 1)),
        ("added", (5, 2)),
        ("refreshed", (5, 1)),
        ("added", (5, 3)),
        ("evicted", (5, 2)),
    ]
    assert pool.after(5) == [(1,), (3,)]


@pytest.mark.parametrize("token", [0, 7])
def test_a_pool_without_room_never_has_a_candidate(token):
    pool = NgramPool(0)
    pool.insert([7, 1, 2])
    assert pool.after(token) == []

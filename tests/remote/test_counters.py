"""Counters of the whole server become those of one request only where nothing else can be in them."""

from playground.decoding.trace import Counts
from playground.remote.counters import counts_between, read_counters

PAGE = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {steps}
vllm:spec_decode_num_drafts_total{{engine="1",model_name="m"}} 1.0
vllm:spec_decode_num_drafts_total{{engine="0",model_name="other"}} 99.0
vllm:spec_decode_num_drafts_created{{engine="0",model_name="m"}} 1.7959731009813619e+09
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {second}
vllm:num_requests_running{{engine="0",model_name="m"}} 0.0
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
"""


def reading(steps, drafted, accepted, first, second, tokens):
    page = PAGE.format(steps=steps, drafted=drafted, accepted=accepted, first=first, second=second, tokens=tokens)
    return read_counters(page, "m")


def test_the_difference_is_the_requests_own():
    before, after = reading(10, 20, 12, 8, 4, 100), reading("1.4e+01", 28, 17, 11, 6, 110)
    assert counts_between(before, after, 10) == Counts(4, 8, 5, 1 + 5 / 4, 5 / 8, [1, 1, 2], 2, source="counters")


def test_other_requests_in_between_leave_it_unknown():
    assert counts_between(reading(10, 20, 12, 8, 4, 100), reading(14, 28, 17, 11, 6, 111), 10) is None


def test_a_restarted_server_leaves_it_unknown():
    assert counts_between(reading(10, 20, 12, 8, 4, 0), reading(1, 2, 1, 1, 0, 10), 10) is None


def test_a_first_request_has_counters_that_began_at_nothing():
    assert counts_between({}, reading(1, 2, 1, 1, 0, 10), 10).num_draft_tokens == 2


def test_a_server_without_these_counters_does_not_speculate():
    plain = read_counters('vllm:generation_tokens_total{engine="0",model_name="m"} 10.0\n', "m")
    assert counts_between({}, plain, 10) == Counts(0, 0, 0, source="counters")


def test_nothing_proposed_has_no_ratios():
    same = reading(10, 20, 12, 8, 4, 100)
    after = reading(10, 20, 12, 8, 4, 110)
    counts = counts_between(same, after, 10)
    assert (counts.mean_acceptance_length, counts.draft_acceptance_rate) == (None, None)


def test_another_kind_of_page_tells_nothing():
    assert counts_between({}, read_counters("<html>no metrics</html>", "m"), 10) is None

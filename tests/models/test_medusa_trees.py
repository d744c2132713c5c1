import json
from collections import Counter

import pytest

from playground.errors import UserError
from playground.models.medusa_trees import check_tree, load_tree, preset_for, presets

PUBLISHED = {
    "mc_sim_7b_63": [10, 28, 23, 2],
    "vicuna_7b_stage1": [10, 32, 20, 1],
    "vicuna_7b_stage1_ablation": [10, 21, 25, 7],
    "vicuna_7b_stage2": [10, 23, 23, 7],
    "vicuna_13b_stage1": [10, 29, 23, 1],
    "vicuna_13b_stage2": [10, 19, 25, 9],
    "vicuna_33b_stage1": [10, 34, 19],
    "vicuna_33b_stage2": [10, 24, 24, 5],
    "zephyr_stage2": [10, 27, 23, 3],
}


def test_the_nine_published_trees_and_ours():
    assert set(presets()) == {*PUBLISHED, "minimal-3", "binary-2"}
    for name, per_depth in PUBLISHED.items():
        tree = load_tree(name)
        counts = Counter(len(path) for path in tree)
        assert [counts[depth + 1] for depth in range(len(counts))] == per_depth
        assert len({tuple(path) for path in tree}) == 63
        assert max(rank for path in tree for rank in path) == 9
    assert load_tree("minimal-3") == [[0], [0, 0], [0, 1], [0, 0, 0]]
    assert sorted(load_tree("binary-2")) == sorted([[a] for a in (0, 1)] + [[a, b] for a in (0, 1) for b in (0, 1)])


@pytest.mark.parametrize("name", [*PUBLISHED, "minimal-3", "binary-2"])
def test_every_preset_is_a_tree(name):
    check_tree(load_tree(name))


def test_a_tree_of_ones_own():
    assert load_tree(" [[0], [12], [0, 3]] ") == [[0], [12], [0, 3]]
    assert load_tree(json.dumps(load_tree("zephyr_stage2"))) == load_tree("zephyr_stage2")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("vicuna", "no Medusa tree called 'vicuna'"),
        ("", "no Medusa tree called ''"),
        ("[[0], [1]", "no JSON list"),
        ("[]", "is empty"),
        ("[[]]", r"holds \[\]"),
        ("[0, 1]", "holds 0"),
        ("[[0], [0, -1]]", r"holds \[0, -1\]"),
        ("[[0.5]]", r"holds \[0.5\]"),
        ("[[true]]", r"holds \[True\]"),
        ('[["0"]]', r"holds \['0'\]"),
        ("[[0], [1, 0, 0]]", r"holds \[1, 0, 0\] but not its parent \[1, 0\]"),
    ],
)
def test_sentences(spec, says):
    with pytest.raises(UserError, match=says):
        load_tree(spec)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("lmsys/vicuna-7b-v1.3", "vicuna_7b_stage2"),
        ("lmsys/vicuna-13b-v1.5", "vicuna_13b_stage2"),
        ("FasterDecoding/medusa-vicuna-33b-v1.3", "vicuna_33b_stage2"),
        ("HuggingFaceH4/zephyr-7b-beta", "zephyr_stage2"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mc_sim_7b_63"),
        (None, "mc_sim_7b_63"),
    ],
)
def test_the_authors_choice(base, name):
    assert preset_for(base) == name
    assert name in presets()

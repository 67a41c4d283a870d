"""`dpubench policy-search` and `sensitivity`: greedy path, noises, policies of choices, kept trials, tables."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from dpu.bench.quality import search_run, sensitivity, sensitivity_trials
from dpu.bench.quality.plan import captions_of_training
from dpu.bench.quality.results import Value
from dpu.bench.quality.search import (
    OPTIONS,
    W8A8,
    Choice,
    first_place,
    greedy_path,
    groups_of,
    hull,
    noise_table,
    policy_of,
    sums,
    text_of,
)
from dpu.bench.quality.sensitivity_model import Layer, block_of, resolved, weight_node
from dpu.bench.quality.sensitivity_trials import Outcome, Place, decibels, run, search_captions, trial
from dpu.bench.train.captions import combination_of, evaluation_prompts
from dpu.errors import DpuError
from dpu.passes.policy import Choices, Precision, read_policy

STATIC, FINE, INT4 = Precision(scale="static"), Precision(activations=16), Precision(weights=4)


def layer(part: str, name: str, kind: str, *nodes: str, unit: str = "") -> Layer:
    return Layer(part, name, kind, (name, *nodes), unit or name)


LAYERS = [
    layer("text_encoder", "/encoder/layers.0/mlp/fc1#3", "linear", "/encoder/layers.0/mlp/fc1/MatMul"),
    layer("text_encoder", "/encoder/layers.0/mlp/fc2#3", "linear", "/encoder/layers.0/mlp/fc2/MatMul"),
    layer("unet", "/conv_in/Conv#3", "conv", "/conv_in/Conv"),
    layer("unet", "/down_blocks.1/attentions.0/q#2", "linear", "/down_blocks.1/attentions.0/q/MatMul"),
    layer(
        "unet",
        "/down_blocks.1/attentions.0/k#2",
        "linear",
        "/down_blocks.1/attentions.0/k/MatMul",
        unit="/down_blocks.1/attentions.0/q#2",
    ),
    layer("unet", "/down_blocks.1/attentions.0/Attention", "attention", "/down_blocks.1/attentions.0/Attention"),
    layer("unet", "/Add_8", "linear", "/Concat", "/add_embedding/linear_2/Gemm", "/Add_8"),
    layer("vae_decoder", "/decoder/up_blocks.0/conv/Conv#3", "conv", "/decoder/up_blocks.0/conv/Conv"),
]


# -- the greedy path ---------------------------------------------------------------------------------------------------


def choices(*points: tuple[float, float]) -> list[Choice]:
    """(cost, noise) of each."""
    return [Choice(W8A8, noise, cost) for cost, noise in points]


def test_a_group_passes_the_choices_that_pay() -> None:
    # dearer and noisier than the first; under the line from 1 to 3; the best; as cheap as the first but noisier
    found = choices((2, 9), (1, 8), (2, 7), (3, 2), (6, 1), (1, 9))
    assert hull(found) == [1, 3, 4]
    assert hull(choices((1, 0))) == [0]
    assert hull(choices((5, 3), (5, 1))) == [1]  # for nothing


def test_the_path_has_the_least_noise_of_all_assignments_of_no_more_cost() -> None:
    table = [choices((1, 8), (3, 2), (6, 1)), choices((2, 5), (3, 4)), choices((4, 1), (5, 1), (4.5, 0.1))]
    path = greedy_path(table)
    assert path[0] == (0, 0, 0)
    assert path[-1] == (2, 1, 2)
    every = [sums(table, a) for a in product(*(range(len(c)) for c in table))]
    costs = [sums(table, a)[1] for a in path]
    assert costs == sorted(costs)
    for assignment in path:
        noise, cost = sums(table, assignment)
        assert noise == pytest.approx(min(n for n, c in every if c <= cost))


@pytest.mark.parametrize("guess", [-5, 0, 3, 7, 19, 40])
def test_a_place_is_found_from_any_guess(guess: int) -> None:
    for wanted in range(21):
        asked: list[int] = []

        def holds(at: int, wanted: int = wanted, asked: list[int] = asked) -> bool:
            asked.append(at)
            return at >= wanted

        assert first_place(20, holds, guess) == (wanted if wanted < 20 else None)
        assert len(asked) == len(set(asked)) and all(0 <= a < 20 for a in asked)
        if wanted == guess:
            assert len(asked) <= 2


# -- noises of choices -------------------------------------------------------------------------------------------------


def test_layers_of_a_block_add_up_to_its_picture() -> None:
    groups = groups_of(LAYERS)
    assert [(g.part, g.name, len(g.layers)) for g in groups][:4] == [
        ("text_encoder", "all linears", 2),
        ("unet", "/conv_in/Conv#3", 1),
        ("unet", "/down_blocks.1/attentions.0/q#2", 2),
        ("unet", "/down_blocks.1/attentions.0/Attention", 1),
    ]
    unet = [x for x in LAYERS if x.part == "unet"]
    assert [block_of(x) for x in unet] == [
        "unet/conv_in",
        *["unet/down_blocks.1/attentions.0"] * 3,
        "unet/add_embedding",
    ]
    forward = {(x.key, p): 1.0 + n for x in unet for n, p in enumerate(OPTIONS[x.kind])}
    blocks = {"unet/conv_in": 10.0, "unet/down_blocks.1/attentions.0": 60.0, "unet/add_embedding": 0.0}
    pictures = {(g.part, g.name, p): 7.0 for g in groups if g.part != "unet" for p in g.options}
    table = noise_table(groups, blocks, forward, pictures)
    assert table[0] == [7.0] * 6
    assert table[1] == [10.0, 20.0, 30.0]  # one layer: the whole block
    assert table[2] == [20.0 * 2 * (n + 1) for n in range(6)]  # two of three equal layers
    assert table[3] == [20.0, 40.0]
    assert table[4] == [0.0] * 6


# -- policies ----------------------------------------------------------------------------------------------------------


def test_a_policy_gives_every_group_its_choice_and_names_each_layer_once(tmp_path: Path) -> None:
    groups = groups_of(LAYERS)
    chosen = [INT4, FINE, STATIC, Precision(probabilities=15), W8A8, FINE]
    policy = policy_of("found", "by a test", groups, chosen, LAYERS)
    wanted = {x.key: p for g, p in zip(groups, chosen, strict=True) for x in g.layers}
    assert resolved(policy, LAYERS) == wanted
    assert [r.layers for r in policy.rules][2] == "/conv_in/Conv"
    assert len(policy.rules) == 7  # w8a8 is the default
    file = tmp_path / "found.json"
    file.write_text(text_of(policy))
    assert read_policy(file) == policy
    assert len(file.read_text().splitlines()) == 8 + 7  # a rule a line
    file.write_text(text_of(policy.model_copy(update={"rules": ()})))
    assert not read_policy(file).rules
    state = Choices(policy)
    for x in LAYERS:
        state.named.update(i for i, r in enumerate(policy.rules) if r.names(x.part, x.names))
    assert state.named == set(range(7))


def test_a_node_that_two_layers_have_names_neither() -> None:
    twice = [layer("unet", "/a/MatMul", "linear", "/x/MatMul"), layer("unet", "/a/MatMul#2", "linear", "/x/MatMul")]
    policy = policy_of("found", "", groups_of(twice), [FINE, STATIC], twice)
    assert [r.layers for r in policy.rules] == ["/a/MatMul", "/a/MatMul#2"]
    assert list(resolved(policy, twice).values()) == [FINE, STATIC]
    assert weight_node(layer("unet", "/y/Add", "linear", "/y/Mul")) == "/y/Add"


# -- trials ------------------------------------------------------------------------------------------------------------


def place(seed: int = 0) -> Place:
    return Place(
        export="e",
        calibration="c",
        unet_sha256="u",
        calibration_sha256="s",
        size=128,
        guidance=5,
        steps=2,
        seed=seed,
        prompts=("a", "b"),
    )


def outcome(name: str, noise: float) -> Outcome:
    return Outcome(name=name, squared_error=(noise, 3 * noise), flip=(0.1, 0.3), latents=(noise, noise))


def test_a_trial_is_made_once_for_its_precisions_and_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def measured(task: tuple[str, sensitivity_trials.Trial]) -> tuple[str, Outcome]:
        if task[1].name == "stop":
            raise KeyboardInterrupt
        made.append(task[1].name)
        return task[1].key, outcome(task[1].name, len(made))

    monkeypatch.setattr(sensitivity_trials, "_measure", measured)
    a, b = ("unet", "a"), ("unet", "b")
    trials = [trial("first", {a: W8A8, b: FINE}), trial("second", {a: W8A8})]
    with pytest.raises(KeyboardInterrupt):
        run(place(), [trials[0], trial("stop", {b: STATIC})], tmp_path, 1)
    found = run(place(), trials, tmp_path, 1)
    assert made == ["first", "second"]  # what was made before the interrupt is kept
    assert [o.name for o in found] == ["first", "second"]
    again = run(place(), [trial("other name", {b: FINE, a: W8A8}), trials[1]], tmp_path, 1)
    assert again == found and made == ["first", "second"]
    run(place(), [trial("judged", {a: W8A8}, "model")], tmp_path, 1)
    run(place(1), trials[:1], tmp_path, 1)
    assert made == ["first", "second", "judged", "first"]
    (file,) = (tmp_path / "trials").glob(f"{place().digest}.json")
    file.write_text('{"format": "dpu.quality-trials/2"}')
    with pytest.raises(DpuError) as e:
        run(place(), trials, tmp_path, 1)
    assert str(e.value) == (
        f"error[E502]: {file}: is no file of this command (field 'format': Input should be 'dpu.quality-trials/1')\n"
        "  why: trials are kept there\n  try: choose another output"
    )


def test_prompts_of_the_search_are_of_neither_calibration_nor_evaluation() -> None:
    found = search_captions(64)
    assert len(set(found)) == 64 and all(combination_of(t) for t in found)
    assert found[:4] == search_captions(4)
    assert not set(found) & {*captions_of_training(), *(t for _, t in evaluation_prompts())}
    first = [combination_of(t) for t in found[:4]]
    assert len({c.object for c in first if c}) == 4


# -- tables ------------------------------------------------------------------------------------------------------------


def test_the_most_harmful_layer_comes_first() -> None:
    rows = sensitivity.rows_of(LAYERS, dict.fromkeys((x.key for x in LAYERS), W8A8))
    assert [r.name for r, _ in rows if r.what == "block"] == [
        "text_encoder/layers.0/mlp",
        "unet/down_blocks.1/attentions.0",
    ]
    assert [(r.name, r.layers) for r, _ in rows if r.what in ("part", "all")] == [
        ("text_encoder", 2),
        ("unet", 5),
        ("vae_decoder", 1),
        ("everything", 8),
    ]
    noise = {x.key: float(n) / 1000 for n, x in enumerate(LAYERS)}
    found = [(r, outcome(t.name, sum(noise[k] for k, _ in t.precisions))) for r, t in rows]
    ranked, total = sensitivity.ranked(found)
    layers = [r for r in ranked if r.what == "layer"]
    assert [r.name for r in layers] == [f"{x.part} {x.name}" for x in reversed(LAYERS)]
    assert layers[-1].psnr_db is None  # nothing changed
    assert sum(r.share or 0 for r in layers) == pytest.approx(1, abs=1e-5)
    assert total == pytest.approx(2 * 0.028)  # the mean of noise and three times noise
    made = sensitivity.Sensitivity(
        command="c",
        precision="w8a8",
        measure="1 prompt",
        model_sha256="",
        calibration_sha256="",
        steps=2,
        seed=0,
        guidance=5,
        prompts=("a",),
        sum_psnr_db=decibels(total),
        rows=tuple(ranked),
    )
    lines = made.text(2).splitlines()
    assert lines[0] == "the final picture when one layer alone is w8a8, against float32 (1 prompt)"
    assert lines[1] == "     PSNR dB    FLIP  latents dB   share  kind       layer"
    assert (
        lines[2] == "  1     18.5  0.2000        21.5   25.0%  conv       vae_decoder /decoder/up_blocks.0/conv/Conv#3"
    )
    assert lines[4] == "     and 6 more with 53.6% of the squared error"
    assert lines[-1] == "the squared errors of single layers add up to 12.5 dB"


def tried(name: str, psnr: float, cycles: int, at: int | None = None) -> search_run.Tried:
    return search_run.Tried(
        name=name,
        place=at,
        digest="",
        predicted_db=None if at is None else psnr + 1,
        psnr_db=psnr,
        gain_db=Value(value=psnr - 35, low=psnr - 35.5, high=psnr - 34.5),
        by_prompt=(psnr, psnr),
        flip=0.01,
        right=0.5,
        cycles=cycles,
        dram_bytes=2_000_000,
        simulated_cycles=cycles + 10_000,
        simulated_dram_bytes=2_000_000,
    )


def test_the_log_says_whether_uniform_w8a8_is_beaten() -> None:
    base, better, dear = tried("w8a8", 35, 1_000_000), tried("s-3", 36, 990_000, 3), tried("s-9", 40, 1_500_000, 9)
    made = search_run.Search(
        command="c",
        arch="dpu_f2",
        cost="cycles",
        floor_psnr_db=40,
        floor_accuracy=None,
        prompts=("a", "b"),
        ranking_prompts=("a",),
        steps=20,
        seed=0,
        path=10,
        uniform=(base,),
        tried=(better, dear),
        found=(
            search_run.Found(what="cheapest above the floor", tried=dear, beats_w8a8=False),
            search_run.Found(what="best at no more than w8a8's cost", tried=better, beats_w8a8=True),
            search_run.Found(what="best at no more than w8a8's cost", tried=better, beats_w8a8=None),
            search_run.Found(what="best at no more than w8a8's cost", tried=None, beats_w8a8=False),
        ),
    )
    s3 = "no more than w8a8's cost: s-3, 1 [0.5, 1.5] dB more than w8a8, simulated cycles -0.99%"
    assert made.text().splitlines() == [
        "dpu_f2, an image of 20 steps; the least cycles; 2 prompts",
        " PSNR dB predicted     dB more than w8a8    FLIP  right   Mcycles           DRAM MB          policy",
        "   35.00                                  0.0100  50.0%     1.000  +0.00%       2.0  +0.00%  w8a8",
        "   36.00      37.0          1 [0.5, 1.5]  0.0100  50.0%     0.990  -1.00%       2.0  +0.00%  s-3",
        "   40.00      41.0          5 [4.5, 5.5]  0.0100  50.0%     1.500 +50.00%       2.0  +0.00%  s-9",
        "cheapest above the floor: s-9, 5 [4.5, 5.5] dB more than w8a8, simulated cycles +49.50%: "
        "does not beat uniform w8a8",
        f"best at {s3}: beats uniform w8a8",
        f"best at {s3}: too few prompts to say whether it beats uniform w8a8 (from 5 on)",
        "best at no more than w8a8's cost: none that was tried",
    ]


def test_only_a_whole_interval_above_nothing_beats_w8a8_and_at_no_more_cost() -> None:
    base = tried("w8a8", 35, 1_000_000)
    assert search_run.beats(tried("a", 36, 1_000_000), base, "cycles") is True
    assert search_run.beats(tried("a", 35.4, 1_000_000), base, "cycles") is False  # the interval holds nothing gained
    assert search_run.beats(tried("a", 36, 1_000_001), base, "cycles") is False
    assert search_run.beats(tried("a", 36, 1_000_001), base, "dram") is True
    slower = tried("a", 36, 1).model_copy(update={"simulated_cycles": 1_010_001})
    assert search_run.beats(slower, base, "cycles") is False  # the estimate alone is no proof
    few = tried("a", 36, 1).model_copy(update={"gain_db": Value(value=1.0)})
    assert search_run.beats(few, base, "cycles") is None
    worse = tried("a", 34, 1).model_copy(update={"gain_db": Value(value=-1.0)})
    assert search_run.beats(worse, base, "cycles") is False


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"floor_psnr": 101.0}, "--floor-psnr: 101.0 is not between 0 and 100"),
        ({"floor_accuracy": 1.5}, "--floor-accuracy: 1.5 is not between 0 and 1"),
        ({"prompts": 0}, "--prompts: 0 is not between 1 and 64"),
        ({"ranking": 65}, "--ranking: 65 is not between 1 and 64"),
        ({"steps": 0}, "--steps: 0 is not between 1 and 1000"),
        ({"cost": "joules"}, "--cost: no cost 'joules'"),
    ],
)
def test_numbers_out_of_range_are_refused_before_any_work(change: dict[str, object], text: str) -> None:
    with pytest.raises(DpuError) as e:
        search_run.check(search_run.Request(Path("m"), Path("w"), "n", "c", **change))  # type: ignore[arg-type]
    hint = "cycles or dram" if "--cost" in text else "see --help"
    assert str(e.value) == f"error[E501]: {text}\n  try: {hint}"
    if "--prompts" in text or "--steps" in text:
        with pytest.raises(DpuError) as e:
            sensitivity.check(**({"prompts": 1, "steps": 1} | change))  # type: ignore[arg-type]
        assert str(e.value) == f"error[E501]: {text}\n  try: {hint}"

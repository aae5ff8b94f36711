"""The trained module is the engine's, and a run goes on where it stopped."""

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.weights import read_json
from engine.zonos2.attention import causal_attend
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.config import Zonos2Config
from tests.training.test_batches import utterance
from training.batches import BatchMaker, Dropout
from training.export import rounded, save_language_model
from training.lm import FROM_SCRATCH, LmRun, Recipe, fresh_backbone, rate_share
from training.losses import SoftCappedCrossEntropy, Teacher, Watch
from training.smoke import TINY_MODEL

NANO = Path(__file__).parents[2] / "assets" / "nano"
CPU = torch.device("cpu")


@pytest.fixture
def config() -> Zonos2Config:
    audio = {
        key: read_json(NANO / "params.json")[key]
        for key in ("n_codebooks", "codebook_size", "eoa_id", "audio_pad_id")
    }
    raw = read_json(NANO / "params.json") | TINY_MODEL | audio | {"speaker_embedding_dim": 128}
    return Zonos2Config.from_dict(raw)


def batches(config: Zonos2Config) -> list:
    spoken = [utterance(f"Sentence {i}.", 20 + i, i) for i in range(8)]
    maker = BatchMaker(config, spoken, Dropout())
    return list(maker.epoch(np.random.default_rng(0), 600))


def run_of(config: Zonos2Config) -> LmRun:
    recipe = Recipe(minutes=1, fine_share=1.0, **FROM_SCRATCH)
    return LmRun(fresh_backbone(config, 0), recipe, CPU)


def test_what_is_trained_is_the_engines_backbone(config: Zonos2Config) -> None:
    run = run_of(config)
    assert type(run.teacher.model) is Backbone
    assert all(torch.isfinite(p).all() for p in run.teacher.parameters())


def test_training_attention_gives_what_the_engines_gives(config: Zonos2Config) -> None:
    model = fresh_backbone(config, 0)
    model.prepare()
    batch = batches(config)[0]
    x = model.embed(batch.rows, model.project_speaker(batch.speaker), batch.has_speaker)
    positions = torch.arange(x.shape[1])[None]
    watch = Watch(config, (1, 2), 2)
    trained = model(x, positions, watch.attend, trace=watch.trace)
    spoken = model(x, positions, causal_attend)
    assert torch.allclose(trained, spoken, atol=1e-5)
    assert len(watch.maps) == 2
    assert torch.allclose(watch.maps[0].sum(-1), torch.ones_like(watch.maps[0][..., 0]))


def test_losses_fall_and_every_loss_reaches_the_weights(config: Zonos2Config) -> None:
    run, made = run_of(config), batches(config)
    first = float(run.step(made[0])["books"].mean())
    for _ in range(40):
        last = float(run.step(made[0])["books"].mean())
    assert last < first - 0.05
    taught = Teacher(fresh_backbone(config, 0))
    taught.model.prepare()
    result = taught(made[0], 1.0, 1.0)
    result.total.backward()
    silent = [n for n, p in taught.named_parameters() if p.grad is None]
    assert silent == []
    assert result.guided > 0
    assert result.phoneme > 0


def test_a_run_goes_on_where_it_stopped(config: Zonos2Config, tmp_path: Path) -> None:
    made = batches(config)
    whole, part = run_of(config), run_of(config)
    for batch in (made[0], made[-1]):
        torch.manual_seed(3)
        whole.step(batch)
    torch.manual_seed(3)
    part.step(made[0])
    torch.save(part.state(), tmp_path / "state.pt")
    resumed = run_of(config)
    resumed.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    torch.manual_seed(3)
    resumed.step(made[-1])
    assert resumed.num_steps == 2
    for name, value in whole.state()["weights"].items():
        assert torch.equal(resumed.state()["weights"][name], value), name


def test_the_rate_warms_up_holds_and_falls() -> None:
    assert rate_share(0.0, 0) < 0.05
    assert rate_share(0.4, 1000) == 1.0
    assert rate_share(0.725, 1000) == pytest.approx(0.5)
    assert rate_share(1.0, 1000) == pytest.approx(0.03)


@pytest.mark.parametrize(("max_file_bytes", "is_split"), [(9 * 2**20, False), (200_000, True)])
def test_an_export_loads_in_the_engine_within_a_rounding(
    config: Zonos2Config, tmp_path: Path, max_file_bytes: int, is_split: bool
) -> None:
    model = fresh_backbone(config, 0)
    save_language_model(tmp_path, rounded(model.state_dict()), max_file_bytes)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == is_split
    loaded = load_backbone(tmp_path, config, "cpu", torch.float32)
    for name, value in model.state_dict().items():
        step = value.abs().amax(-1, keepdim=True) / 127
        assert ((loaded.state_dict()[name] - value).abs() <= step + 1e-6).all(), name


def test_the_capped_loss_is_the_plain_formulas() -> None:
    torch.manual_seed(0)
    logits = torch.randn(7, 3, 11, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (7, 3))
    ours = SoftCappedCrossEntropy.apply(logits * 9, targets, 4.0)
    plain = torch.nn.functional.cross_entropy(
        (4.0 * torch.tanh(logits * 9 / 4.0)).flatten(0, 1), targets.flatten(), reduction="none"
    ).view(7, 3)
    assert torch.allclose(ours, plain)
    assert torch.autograd.gradcheck(
        lambda x: SoftCappedCrossEntropy.apply(x, targets, 4.0), (logits,), atol=1e-6
    )

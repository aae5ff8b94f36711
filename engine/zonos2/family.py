"""The ZONOS2 family behind the engine's protocol, and its runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.family import Context, Lanes, Prompt, PromptPlan, Twin
from engine.memory import available_bytes, check_memory
from engine.request import Emotion, Sampling, SpeechRequest
from engine.sampling.settings import resolve
from engine.sampling.slots import SlotSampler
from engine.zonos2.attention import SlotKv
from engine.zonos2.backbone import Backbone
from engine.zonos2.checkpoint import load_backbone
from engine.zonos2.compiled import CompiledStep, can_compile
from engine.zonos2.config import Zonos2Config
from engine.zonos2.controls import declared_controls, resolve_controls, without_end
from engine.zonos2.emotion import EmotionDirections
from engine.zonos2.footprint import footprint
from engine.zonos2.narrow import NARROW_MAX
from engine.zonos2.prompt import TextIds, build_rows
from engine.zonos2.step import SlotStep

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Above this many numbers a CPU computes in the stored precision: float32 would double 15 GB.
FLOAT32_MAX_NUMBERS = 1_000_000_000
# The reference splits longer texts into stretches of this many characters (spec 9.5).
RELEASE_SEGMENT_CHARS = 150


class Zonos2Family:
    """One opened ZONOS2-shaped checkpoint; fulfils ``engine.family.Family``."""

    name = "zonos2"

    def __init__(self, config: Zonos2Config, model: Backbone, device: torch.device) -> None:
        self.config = config
        self.model = model
        self.device = device
        self.dtype = model.out_norm.weight.dtype
        self.num_codebooks = config.num_codebooks
        self.codebook_size = config.codebook_size
        self.audio_vocab = config.audio_vocab
        self.eoa_id = config.eoa_id
        self.max_rows = config.max_rows
        self.num_numbers = sum(tensor.numel() for tensor in model.state_dict().values())
        self.speaker_dim = config.speaker_dim
        self.sampling_defaults = config.sampling_defaults
        self.controls = declared_controls(config)
        self.default_language = config.default_language
        self.default_voice = config.extra.get("default_voice")
        self.emotions: EmotionDirections | None = None
        self.continues = bool(config.extra.get("continues_from_prefix", True))
        self.segment_chars = int(config.extra.get("long_form_chunk_chars", RELEASE_SEGMENT_CHARS))

    @classmethod
    def check(
        cls, checkpoint: Path, device: torch.device, dtype: torch.dtype | None, num_slots: int
    ) -> None:
        """Raise ``CheckpointError`` unless what is declared can be used and the memory holds it."""
        config = _usable_config(checkpoint)
        chosen, experts_dtype = _precision(config, device, dtype)
        smaller = chosen.itemsize > 2 and experts_dtype is None
        narrow = footprint(config, torch.bfloat16) if smaller else None
        check_memory(footprint(config, chosen, experts_dtype), num_slots, device, narrow)

    @classmethod
    def open(
        cls, checkpoint: Path, device: torch.device, dtype: torch.dtype | None
    ) -> Zonos2Family:
        """Read configuration and weights of a folder or GGUF file; raises ``CheckpointError``.

        ``dtype`` int8 or float8_e4m3fn is that of the experts; None takes what fits.
        """
        config = _usable_config(checkpoint)
        chosen, experts_dtype = _precision(config, device, dtype)
        model = load_backbone(checkpoint, config, device, chosen, experts_dtype)
        return cls(config, model, device)

    def load_emotions(self, folder: Path) -> None:
        """Read emotion directions; raises ``CheckpointError`` when they do not fit."""
        self.emotions = EmotionDirections.open(folder, self.config, self.device)

    @torch.inference_mode()
    def plan(self, text: str, request: SpeechRequest, context: Context | None = None) -> PromptPlan:
        """The prompt rows of ``text``, the hidden row that carries the voice, and the twins."""
        has_speaker = request.speaker is not None
        controls = resolve_controls(self.config, request.delivery, has_speaker)
        if context is not None and not context.is_last:
            controls = without_end(controls)  # the silence at the end belongs to the last segment
        fresh = rows = build_rows(self.config, text, controls, has_speaker)
        if context is not None and context.text:
            whole = f"{context.text} {text}"
            prefix = context.frames[-(self.config.max_rows // 2) :]
            rows = build_rows(self.config, whole, controls, has_speaker, prefix)
        plain_row = self._speaker_row(request)
        emotion = request.emotion
        is_moved = emotion is not None and emotion.has_effect
        speaker_row = plain_row if emotion is None else self._moved_row(request, emotion, is_moved)
        twins: list[Twin] = []
        if request.guidance.emotion != 1.0 and is_moved:
            twins.append(Twin(Prompt(rows, plain_row), request.guidance.emotion))
        if request.guidance.speaker != 1.0:
            if not has_speaker:
                raise InvalidRequest(
                    "cfg_scale: guidance by the voice needs a voice; choose one or leave it out.",
                    field="cfg_scale",
                )
            twins.append(Twin(Prompt(rows, None), request.guidance.speaker))
        if request.guidance.prefix != 1.0 and rows is not fresh:
            twins.append(Twin(Prompt(fresh, speaker_row), request.guidance.prefix))
        return PromptPlan(Prompt(rows, speaker_row), tuple(twins))

    def _speaker_row(self, request: SpeechRequest) -> Tensor | None:
        if request.speaker is None:
            return None
        return self.model.project_speaker(request.speaker.to(self.device))

    def _moved_row(self, request: SpeechRequest, emotion: Emotion, is_moved: bool) -> Tensor | None:
        if self.emotions is None:
            if not is_moved:
                return self._speaker_row(request)
            raise InvalidRequest(
                "emotion_sliders: this model has no emotion directions; start the studio with"
                " --emotion-directions DIR, or leave the emotion out.",
                field="emotion_sliders",
                code="unsupported_parameter",
            )
        if request.speaker is None:
            if not is_moved:
                return None
            raise InvalidRequest(
                "voice: an emotion moves a voice and this request has none; choose one.",
                field="voice",
            )
        speaker = request.speaker.to(self.device)
        return self.emotions.steer(self.model, speaker, emotion, request.voice_id)

    def open_runner(self, num_slots: int) -> Zonos2Runner:
        """Allocate key and value slots for ``num_slots`` sequences."""
        return Zonos2Runner(self.model, num_slots, self.device)

    def release(self) -> None:
        """Free the weights."""
        self.model.to("meta")


def _usable_config(checkpoint: Path) -> Zonos2Config:
    config = Zonos2Config.load(checkpoint)
    TextIds.of(config)
    try:
        resolve(Sampling(), config.sampling_defaults)
    except InvalidRequest as error:
        raise CheckpointError(f"model: sampling_defaults in params.json: {error.message}") from None
    return config


def _default_dtype(config: Zonos2Config, device: torch.device) -> torch.dtype:
    stored = DTYPES.get(config.dtype, torch.bfloat16)
    num_numbers = footprint(config, stored).weights // stored.itemsize
    fits = device.type == "cpu" and num_numbers <= FLOAT32_MAX_NUMBERS
    return torch.float32 if fits else stored


def _precision(
    config: Zonos2Config, device: torch.device, dtype: torch.dtype | None
) -> tuple[torch.dtype, torch.dtype | None]:
    """The dtype of the weights, and that of the experts where it is another one.

    Without a wish, experts become narrow where the whole does not fit with one slot.
    """
    default = _default_dtype(config, device)
    if dtype in NARROW_MAX:
        return default, dtype
    if dtype is not None or config.moe_num_experts < 2:
        return dtype or default, None
    available = available_bytes(device)
    if available is None or footprint(config, default).total(1) <= available:
        return default, None
    has_float8 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)
    return default, torch.float8_e4m3fn if has_float8 else torch.int8


class Zonos2Runner:
    """Prefill and decode over fixed slots: compiled on a CPU, as a graph of all slots on a GPU."""

    decodes_again = True

    def __init__(
        self,
        model: Backbone,
        num_slots: int,
        device: torch.device,
        *,
        compiles: bool | None = None,
        uses_graph: bool = True,
    ) -> None:
        config = model.config
        self.model = model
        self.num_slots = num_slots
        self._device = device
        self._kv = SlotKv(
            config, num_slots, config.max_rows, device, dtype=model.out_norm.weight.dtype
        )
        self._num_rows = [0] * num_slots  # rows written per slot
        if compiles is None:
            compiles = device.type == "cpu" and can_compile(model)
        self._step: CompiledStep | SlotStep
        if compiles:
            self._step = CompiledStep(model, self._kv, num_slots)
        else:
            self._step = SlotStep(model, self._kv, num_slots, uses_graph=uses_graph)

    def prefill(self, slot: int, prompt: Prompt) -> Tensor:
        """Start ``slot`` with ``prompt``; one per call, so no other request has a say in it."""
        rows = prompt.rows.to(self._device)[None]  # [1, T, W]
        speaker_row = None if prompt.speaker_row is None else prompt.speaker_row[None]
        num_rows = rows.shape[1]
        hidden = self.model(
            self.model.embed(rows, speaker_row),
            torch.arange(num_rows, device=self._device)[None],
            self._kv.prefill(slot),
        )
        self._num_rows[slot] = num_rows
        self._step.start(slot, num_rows)
        return self.model.head(hidden[:, -1])

    def decode(self, slots: Sequence[int], codes: Tensor) -> Tensor:
        """One step of ``slots`` with their last ``codes`` [n, C] -> logits [n, C, V]."""
        places = [self._num_rows[slot] for slot in slots]
        logits = self._step(codes, slots, places)
        for slot in slots:
            self._num_rows[slot] += 1
        return logits

    @property
    def draws(self) -> bool:
        """Whether the step draws the next codes itself."""
        return isinstance(self._step, SlotStep)

    def decode_and_draw(
        self, sampler: SlotSampler, lanes: Sequence[Lanes], codes: Tensor
    ) -> Tensor:
        """A step of ``lanes`` with their last ``codes``, and the next ones, drawn on the device."""
        assert isinstance(self._step, SlotStep)
        slots = [slot for lane in lanes for slot in lane.slots]
        drawn = self._step.draw(sampler, codes, lanes, [self._num_rows[slot] for slot in slots])
        for slot in slots:
            self._num_rows[slot] += 1
        return drawn

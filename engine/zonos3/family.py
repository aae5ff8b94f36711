"""The ZONOS3 family behind the engine's protocol, and its runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import CheckpointError, InvalidRequest
from engine.family import Context, Emotions, Prompt, PromptPlan, Twin
from engine.memory import check_memory
from engine.request import SpeechRequest
from engine.zonos3.backbone import Backbone
from engine.zonos3.checkpoint import (
    check_folder,
    footprint,
    load_backbone,
    load_clips,
    load_config,
)
from engine.zonos3.config import Zonos3Config
from engine.zonos3.controls import declared_controls, resolve_controls
from engine.zonos3.prompt import clip_rows, content_rows, speaker_slot
from engine.zonos3.state import SequenceState
from engine.zonos3.tokenizer import TOKENIZER_FILE, TextTokenizer


class Zonos3Family:
    """One opened ZONOS3-shaped checkpoint; fulfils ``engine.family.Family``.

    A stored voice speaks from its clip where it has one, and from its embedding else; a recording
    is an embedding.
    """

    name = "zonos3"

    def __init__(
        self,
        config: Zonos3Config,
        model: Backbone,
        tokenizer: TextTokenizer,
        clips: Mapping[str, Tensor],
        device: torch.device,
    ) -> None:
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
        self.speaker_dim: int | None = config.speaker_dim
        self.sampling_defaults = config.sampling_defaults
        self.controls = declared_controls(config)
        self.default_language = config.default_language
        self.default_voice = config.default_voice
        self.emotions: Emotions | None = None
        self.segment_chars = config.segment_chars
        self.continues = False  # where earlier speech stands in its prompt is not public
        self._tokenizer = tokenizer
        self._clips = clips

    @classmethod
    def check(
        cls, folder: Path, device: torch.device, dtype: torch.dtype | None, num_slots: int
    ) -> None:
        """Raise ``CheckpointError`` unless the folder can be used and the memory holds it all."""
        config = check_folder(folder)
        if dtype is not None and dtype.itemsize < 2:
            raise CheckpointError(
                f"model: its experts cannot be {str(dtype).removeprefix('torch.')} in this family;"
                " choose --dtype bfloat16."
            )
        chosen = dtype or _default_dtype(config, device)
        narrow = footprint(config, torch.bfloat16) if chosen.itemsize > 2 else None
        check_memory(footprint(config, chosen), num_slots, device, narrow)

    @classmethod
    def open(cls, folder: Path, device: torch.device, dtype: torch.dtype | None) -> Zonos3Family:
        """Read configuration, tokenizer, clips and weights; raises ``CheckpointError``."""
        config = load_config(folder)
        tokenizer = TextTokenizer(folder / TOKENIZER_FILE, config.tokenizer_size)
        model = load_backbone(folder, config, device, dtype or _default_dtype(config, device))
        return cls(config, model, tokenizer, load_clips(folder, config), device)

    def load_emotions(self, folder: Path) -> None:
        """Refuse: how this family is steered is not public."""
        raise CheckpointError(
            f"model: {folder.name!r} holds emotion directions and this model follows none; leave"
            " --emotion-directions out."
        )

    @torch.inference_mode()
    def plan(self, text: str, request: SpeechRequest, context: Context | None = None) -> PromptPlan:
        """The prompt rows of ``text`` after the voice's, and the twin without the voice."""
        if request.emotion is not None and request.emotion.has_effect:
            raise InvalidRequest(
                "emotion_sliders: this model has no emotion directions; leave the emotion out.",
                field="emotion_sliders",
                code="unsupported_parameter",
            )
        controls = resolve_controls(self.config, request.delivery)
        content = content_rows(self.config, controls, self._tokenizer.encode(text))
        plain = Prompt(content, None)
        main = self._spoken_by(request, content) or plain
        if request.guidance.speaker == 1.0:
            return PromptPlan(main)
        if main is plain:
            raise InvalidRequest(
                "cfg_scale: guidance by the voice needs a voice; choose one or leave it out.",
                field="cfg_scale",
            )
        return PromptPlan(main, (Twin(plain, request.guidance.speaker),))

    def _spoken_by(self, request: SpeechRequest, content: Tensor) -> Prompt | None:
        if request.speaker is None:
            return None
        clip = self._clips.get(request.voice_id or "")
        if clip is not None:
            return Prompt(torch.cat([clip_rows(self.config, clip), content]), None)
        row = self.model.project_speaker(request.speaker.to(self.device))
        return Prompt(torch.cat([speaker_slot(self.config), content]), row)

    def open_runner(self, num_slots: int) -> Zonos3Runner:
        """Allocate the memory of ``num_slots`` sequences."""
        return Zonos3Runner(self.model, num_slots, self.device)

    def release(self) -> None:
        """Free the weights."""
        self.model.to("meta")


def _default_dtype(config: Zonos3Config, device: torch.device) -> torch.dtype:
    if device.type == "cpu":
        return torch.float32
    return torch.float16 if config.dtype == "float16" else torch.bfloat16


class Zonos3Runner:
    """Prefill and decode over fixed slots; a decode step always has ``num_slots`` rows."""

    def __init__(self, model: Backbone, num_slots: int, device: torch.device) -> None:
        config = model.config
        self.model = model
        self.num_slots = num_slots
        self.state = SequenceState(config, num_slots, device, model.out_norm.weight.dtype)
        self._device = device
        # Idle slots keep feeding pad rows, so that every product has the same shape.
        self._rows = torch.full(
            (num_slots, 1, config.row_width), config.audio_pad_id, dtype=torch.int64, device=device
        )
        self._rows[..., -1] = config.text_vocab

    def prefill(self, slot: int, prompt: Prompt) -> Tensor:
        """Start ``slot`` with ``prompt``; one per call, so no other request has a say in it."""
        rows = prompt.rows.to(self._device)[None]  # [1, T, W]
        num_rows = rows.shape[1]
        hidden = self.model(
            self.model.embed(rows, prompt.speaker_row),
            torch.arange(num_rows, device=self._device)[None],
            self.state.prefill(slot, num_rows),
        )
        return self.model.logits(hidden[:, -1])

    def decode(self, slots: Sequence[int], codes: Tensor) -> Tensor:
        """One step of ``slots`` with their last ``codes`` [n, C] -> logits [n, C, V]."""
        live = list(slots)
        self._rows[live, 0, :-1] = codes
        positions = torch.zeros(self.num_slots, 1, dtype=torch.int64)
        for slot in live:
            positions[slot, 0] = self.state.num_rows[slot]
        hidden = self.model(
            self.model.embed(self._rows),
            positions.to(self._device),
            self.state.decode(live),
            is_step=True,
        )
        return self.model.logits(hidden[:, 0], live)

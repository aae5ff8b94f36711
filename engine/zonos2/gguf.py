"""A GGUF file of zonos2.cpp: its metadata in the words of params.json, its tensors as ours.

- The package ``gguf`` reads it and undoes every quantisation. It is imported when a file is opened.
- ggml counts dimensions from the innermost one: reversed, they are torch's. Experts are stacked
  [experts, out, in], with gate and up apart; keys and values, and the dense up and gate, are the
  halves of what the release stacks; ``attn_temp`` [heads] is an absolute value already.
- A tensor is dequantised one matrix after the other into its place, so nothing is held twice.
- Every tensor must be there in the shape that the metadata give it: a file whose layers were pruned
  to different numbers of experts is refused. The router's width is no metadata, but a shape.
- No such file says what its control ids mean (the keys ``zonos2.cond.*`` are spoken of there, but
  neither written nor read): see ``config.read_params``.
- Source: spec/zonos2.md 1.4, and the layout that the converter of zonos2.cpp writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine.errors import CheckpointError
from engine.weights import check_tensors

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

ARCHITECTURE = "zonos2"

# Our names -> the file's: one tensor, or two that lie in ours as ``_halves`` says.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "multi_output.weight": ("output.weight",),
    "out_norm.weight": ("output_norm.weight",),
    "speaker_lda_projection.weight": ("spk_lda.weight",),
    "speaker_lda_projection.bias": ("spk_lda.bias",),
    "speaker_projection.weight": ("spk_proj.weight",),
    "speaker_projection.bias": ("spk_proj.bias",),
}
_LAYER_NAMES: Mapping[str, tuple[str, ...]] = {
    "attention_norm.weight": ("attn_norm.weight",),
    "attention.wq.weight": ("attn_q.weight",),
    "attention.wkv.weight": ("attn_k.weight", "attn_v.weight"),
    "attention.wo.weight": ("attn_output.weight",),
    "attention.temp": ("attn_temp",),
    "attention.gater.weight": ("attn_gate.weight",),
    "ffn_norm.weight": ("ffn_norm.weight",),
    "feed_forward.w_in.weight": ("ffn_up.weight", "ffn_gate.weight"),
    "feed_forward.w_out.weight": ("ffn_down.weight",),
    "feed_forward.experts.w13": ("ffn_gate_exps.weight", "ffn_up_exps.weight"),
    "feed_forward.experts.w2": ("ffn_down_exps.weight",),
    "feed_forward.router.down_proj.weight": ("router_down.weight",),
    "feed_forward.router.down_proj.bias": ("router_down.bias",),
    "feed_forward.router.router_mlp.0.weight": ("router_mlp0.weight",),
    "feed_forward.router.router_mlp.0.bias": ("router_mlp0.bias",),
    "feed_forward.router.router_mlp.2.weight": ("router_mlp2.weight",),
    "feed_forward.router.router_mlp.2.bias": ("router_mlp2.bias",),
    "feed_forward.router.router_mlp.4.weight": ("router_mlp4.weight",),
    "feed_forward.router.rmsnorm_eda.weight": ("router_norm.weight",),
    "feed_forward.router.balancing_biases": ("router_bias",),
    "feed_forward.router.router_states_scale": ("router_eda_scale",),
}
_IN_LAYER = re.compile(r"layers\.(\d+)\.(.+)")
_TABLE = re.compile(r"multi_embedder\.embedders\.(\d+)\.weight")

T = TypeVar("T")


def is_gguf(path: Path) -> bool:
    """Whether ``path`` names a GGUF file rather than a checkpoint folder."""
    return path.suffix.lower() == ".gguf"


def gguf_in(folder: Path) -> Path | None:
    """The GGUF file of ``folder`` that is a ZONOS2 model, or None when it holds no GGUF at all.

    Raises ``CheckpointError`` when it is not clear which one is meant.
    """
    files = sorted(path for path in folder.iterdir() if is_gguf(path))
    if len(files) < 2:
        return files[0] if files else None
    # The codec and the speaker encoder of zonos2.cpp are GGUF files beside it.
    models = [file for file in files if _architecture(_read(file)) == ARCHITECTURE]
    if len(models) == 1:
        return models[0]
    names = ", ".join(file.name for file in models or files)
    told = f"{len(models)} ZONOS2 models" if models else "no ZONOS2 model among its GGUF files"
    raise CheckpointError(
        f"model: the folder {folder.name!r} has {told} ({names}); give the path of the one to open."
    )


class GgufFile:
    """One opened file; raises ``CheckpointError`` when it is damaged or of another architecture."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._reader = _read(path)
        found = _architecture(self._reader)
        if found != ARCHITECTURE:
            raise CheckpointError(
                f"model: {path.name} has the architecture {found!r}; only {ARCHITECTURE!r}, that of"
                " zonos2.cpp, can be opened as a GGUF file."
            )
        self._tensors: dict[str, ReaderTensor] = {
            tensor.name: tensor for tensor in self._reader.tensors
        }
        self._num_codebooks = self._value("n_codebooks", int)

    def params(self) -> dict[str, Any]:
        """The metadata under the keys of params.json; raises ``CheckpointError`` naming a key."""
        from engine.zonos2.attention import QK_NORM_EPS  # which itself reads the configuration

        used = self._value("expert_used_count_per_layer", lambda found: [int(n) for n in found])
        num_layers, num_experts = self._value("block_count", int), self._value("expert_count", int)
        with_experts = [layer for layer, count in enumerate(used) if count]
        first, last = (with_experts[0], with_experts[-1]) if with_experts else (0, -1)
        if (
            len(used) != num_layers
            or with_experts != list(range(first, last + 1))
            or any(not 0 <= count <= num_experts for count in used)
        ):
            raise self._unusable("expert_used_count_per_layer", used)
        if (vocab := self._value("audio_vocab", int)) != self._value("codebook_size", int) + 2:
            raise self._unusable("audio_vocab", vocab)
        if (eps := self._value("attention.qk_norm_epsilon", _decimal)) != QK_NORM_EPS:
            raise self._unusable("attention.qk_norm_epsilon", eps)
        speaker_dim = self._value("speaker.embedding_dim", int)
        return {
            "model_type": ARCHITECTURE,
            "n_layers": num_layers,
            "dim": self._value("embedding_length", int),
            "head_dim": self._value("head_dim", int),
            "n_heads": self._value("attention.head_count", int),
            "n_kv_heads": self._value("attention.head_count_kv", int),
            "ffn_dim": self._value("feed_forward_length", int),
            "norm_eps": self._value("attention.layer_norm_rms_epsilon", _decimal),
            "rope_theta": self._value("rope.freq_base", _decimal),
            "max_seqlen": self._value("context_length", int),
            "n_codebooks": self._num_codebooks,
            "codebook_size": self._value("codebook_size", int),
            "eoa_id": self._value("eoa_id", int),
            "audio_pad_id": self._value("audio_pad_id", int),
            "text_vocab": self._value("text_vocab", int),
            "loss_softcap": self._value("logit_softcap", _decimal),
            "moe_n_experts": num_experts if with_experts else 1,
            "moe_router_topk": 1,
            "special_topk_layers": {layer: used[layer] for layer in with_experts},
            "moe_start_from_layer": first,
            "moe_end_from_layer": num_layers - 1 - last,
            "moe_router_dim": self._router_dim(first),
            "speaker_enabled": speaker_dim > 0,
            "speaker_embedding_dim": speaker_dim,
            "speaker_lda_dim": self._value("speaker.lda_dim", int),
        }

    def check(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise one ``CheckpointError`` unless the file holds exactly the tensors ``expected``.

        It names every missing, extra and misshapen tensor by its name in the file, or the first
        whose quantisation the package cannot undo.
        """
        shapes = {
            stored: tuple(half.shape)
            for name, shape in expected.items()
            for stored, half in _places(
                name, torch.empty(shape, device="meta"), self._num_codebooks
            )
        }
        found = {name: torch.empty(_shape(t), device="meta") for name, t in self._tensors.items()}
        check_tensors(shapes, found, f"the tensors of {self.name} do not fit its metadata")
        for tensor in {tensor.tensor_type: tensor for tensor in self._tensors.values()}.values():
            one_row = tensor.data.reshape(-1, tensor.data.shape[-1])[:1]
            try:
                _wide(one_row, tensor)
            except RuntimeError:  # the package knows no way back
                raise CheckpointError(
                    f"model: {tensor.name} in {self.name} is stored as {tensor.tensor_type.name},"
                    " which the package gguf cannot read back; choose another quantisation."
                ) from None

    def matrices(self, name: str, *targets: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Each stored matrix (or vector) of our tensor ``name``, float32, with where it belongs.

        ``targets`` are shaped like our tensor, or like it without its last dimension; each yielded
        tuple is one dequantised matrix and its view of every target.
        """
        by_target = [_places(name, target, self._num_codebooks) for target in targets]
        for halves in zip(*by_target, strict=True):
            tensor = self._tensors[halves[0][0]]
            places = [place for _, place in halves]
            if tensor.data.ndim < 3:
                yield _wide(tensor.data, tensor), *places
                continue
            for expert, data in enumerate(tensor.data):
                yield _wide(data, tensor), *(place[expert] for place in places)

    def _value(self, key: str, kind: Callable[[Any], T]) -> T:
        field = self._reader.get_field(f"{ARCHITECTURE}.{key}")
        if field is None:
            raise CheckpointError(f"model: {self.name} lacks the metadata {ARCHITECTURE}.{key}.")
        found = field.contents()
        try:
            return kind(found)
        except (TypeError, ValueError):
            raise self._unusable(key, found) from None

    def _unusable(self, key: str, value: object) -> CheckpointError:
        return CheckpointError(
            f"model: {self.name} has an unusable {ARCHITECTURE}.{key} ({str(value)[:80]})."
        )

    def _router_dim(self, layer: int) -> int:
        tensor = self._tensors.get(f"blk.{layer}.router_down.weight")
        return 1 if tensor is None else _shape(tensor)[0]  # ``check`` names the missing one


def _read(path: Path) -> GGUFReader:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise CheckpointError(
            f"model: opening {path.name} needs the package gguf; install it with"
            " `pip install gguf`."
        ) from None
    try:
        reader = GGUFReader(path)
        for field in reader.fields.values():
            field.contents()  # each can be read, now and later
    except Exception as error:  # of many types, depending on where the bytes stop making sense
        told = (str(error) or type(error).__name__).splitlines()[0][:160]
        raise CheckpointError(
            f"model: {path.name} is damaged or no GGUF file ({told}); copy or download it again."
        ) from None
    if reader.byte_order != "I":
        raise CheckpointError(f"model: {path.name} was written for the other byte order.")
    return reader


def _architecture(reader: GGUFReader) -> str | None:
    field = reader.get_field("general.architecture")
    return None if field is None else str(field.contents())


def _decimal(value: Any) -> float:
    """The number that was meant by a float32: the shortest decimal that is stored as it."""
    return float(str(np.float32(value)))


def _shape(tensor: ReaderTensor) -> tuple[int, ...]:
    return tuple(reversed(tensor.shape.tolist()))


def _wide(data: np.ndarray, tensor: ReaderTensor) -> Tensor:
    from gguf.quants import dequantize

    wide = dequantize(data, tensor.tensor_type)
    return torch.from_numpy(np.require(wide, np.float32, "W"))  # a copy where it is the file's own


def _places(name: str, target: Tensor, num_codebooks: int) -> list[tuple[str, Tensor]]:
    """The file's tensors that make up ours, each with its view of ``target``."""
    if table := _TABLE.fullmatch(name):
        column = int(table[1])
        is_text = column == num_codebooks
        return [("text_embd.weight" if is_text else f"audio_embd.{column}.weight", target)]
    if within := _IN_LAYER.fullmatch(name):
        stored = tuple(f"blk.{within[1]}.{part}" for part in _LAYER_NAMES[within[2]])
    else:
        stored = _NAMES[name]
    if name.endswith("attention.temp"):
        return [(stored[0], target.view(-1))]  # [1, heads, 1]
    return list(zip(stored, _halves(name, target) if len(stored) > 1 else [target], strict=True))


def _halves(name: str, target: Tensor) -> tuple[Tensor, ...]:
    """Rows of experts alternate [experts, 2 * out, ...]; others are stacked [2, out, ...]."""
    if name.endswith("experts.w13"):
        return target.unflatten(1, (-1, 2)).unbind(2)
    return target.unbind(0)

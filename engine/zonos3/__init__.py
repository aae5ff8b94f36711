"""ZONOS3-shaped models: delta-rule and attention layers, latent experts, frames of ten codes."""

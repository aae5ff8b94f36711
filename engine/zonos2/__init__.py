"""The ZONOS2 family: configuration, checkpoint, backbone, prompt rows and controls."""

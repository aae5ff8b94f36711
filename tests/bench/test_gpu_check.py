"""The device check runs dry on the CPU, and tells a wrong device from a right one."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from bench import gpu_check
from bench.machine import loaded_reason
from engine.zonos2.backbone import Backbone


def test_everything_is_right_on_this_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["gpu_check", "--device", "cpu", "--rounds", "1", "--frames", "16"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert gpu_check.main() == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sampler"]["cases"] >= 50
    checks = ("forward", "sampler", "codec", "kernels", "isolation", "graphs")
    assert all(report[name]["ok"] for name in checks)
    assert [load["requests"] for load in report["nano"]] == [1, 8]
    table = report["table"]
    assert table["size"] == "tiny" and set(table["steps"]["batches"]) == {"1", "2"}
    assert all(load["failed"] == 0 and load["floor"]["rtf"] > 0 for load in table["loads"])


def test_a_wrong_forward_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Backbone.head
    monkeypatch.setattr(Backbone, "head", lambda *args: head(*args) + 0.01)
    with torch.inference_mode():
        assert not gpu_check.check_forward(torch.device("cpu"))["ok"]


def test_a_loaded_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (64.0, 64.0, 64.0))
    assert "loaded" in (loaded_reason() or "")
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    assert loaded_reason() is None

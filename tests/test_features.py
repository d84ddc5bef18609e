"""Pictures of features, and how alike images are."""

from __future__ import annotations

import torch

from sapiens2_core import Estimator
from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.features import cosine_similarity, features_to_rgb


def mixed_maps(rows: int = 12, columns: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    """Three patterns (3, h, w), and 20 channels that mix them with falling strength."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
    maps = torch.stack([y, x, x * y])
    generator = torch.Generator().manual_seed(0)
    mixing = torch.linalg.qr(torch.randn(20, 3, generator=generator))[0] * torch.tensor([9.0, 5.0, 2.0])
    return maps, torch.einsum("ck,khw->chw", mixing, maps) + 7


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1].item()


def test_picture_shows_the_three_strongest_directions():
    maps, tokens = mixed_maps()
    (picture,) = features_to_rgb(tokens[None])
    assert picture.shape == maps.shape
    assert picture.min() >= 0
    assert picture.max() <= 1
    for component, source in zip(picture, maps, strict=True):
        assert abs(correlation(component, source)) > 0.99


def test_one_set_of_axes_serves_the_whole_clip():
    _, tokens = mixed_maps()
    other = tokens.flip(-1)
    together = features_to_rgb(torch.stack([tokens, other, tokens]))
    assert torch.equal(together[0], together[2])
    torch.testing.assert_close(together[1], together[0].flip(-1))


def test_only_the_foreground_is_looked_at():
    maps, tokens = mixed_maps()
    foreground = torch.zeros(1, 12, 9, dtype=torch.bool)
    foreground[:, 2:10, 1:8] = True
    littered = tokens.clone()
    littered[:, ~foreground[0]] = 1e4 * torch.randn(20, int((~foreground).sum()))
    (picture,) = features_to_rgb(littered[None], foreground)
    assert (picture[:, ~foreground[0]] == 0).all()
    assert abs(correlation(picture[0][foreground[0]], maps[0][foreground[0]])) > 0.98
    assert (features_to_rgb(tokens[None], torch.zeros(1, 12, 9, dtype=torch.bool)) == 0).all()


def test_features_that_are_all_alike_are_grey():
    assert torch.equal(features_to_rgb(torch.ones(2, 8, 3, 2)), torch.full((2, 3, 3, 2), 0.5))


def test_half_precision_is_enough():
    _, tokens = mixed_maps()
    difference = features_to_rgb(tokens[None]) - features_to_rgb(tokens[None].half())
    assert difference.abs().max() < 0.01


def test_similarity_is_the_cosine():
    a = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0]])
    torch.testing.assert_close(cosine_similarity(a, a[:1]), torch.tensor([1.0, 0.5**0.5, -1.0]))


def test_backbone_of_a_task_sees_what_the_task_sees():
    torch.manual_seed(0)
    model = build(tiny_config("normal"), "normal").eval()
    estimator = Estimator(model).backbone()
    frame = torch.rand(3, 128, 96, generator=torch.Generator().manual_seed(0))

    (features,) = next(estimator.predict([frame]))

    # A frame of the native size needs no fitting, so letterboxed and stretched are the same.
    pixel_values = estimator.processor(frame, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        outputs = model.model(pixel_values)
        feature_map = model.model.feature_map(outputs.last_hidden_state, pixel_values.shape[2])
    torch.testing.assert_close(features.patch_tokens, feature_map[0])
    torch.testing.assert_close(features.cls_token, outputs.pooler_output[0])

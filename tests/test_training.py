"""Training against transformers in fp32: losses, gradients of every parameter, random draws, first weights."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from sapiens2_core.attention import augment_coordinates, patch_center_coordinates
from sapiens2_core.config import Sapiens2Config, tiny_config
from sapiens2_core.estimators import MODEL_CLASSES
from sapiens2_core.layers import drop_path
from sapiens2_core.pretrained import Sapiens2PreTrainedModel
from sapiens2_core.tasks import TASKS
from tests.reference import reference_config, reference_model

PIXELS = torch.randn(2, 3, 128, 96, generator=torch.Generator().manual_seed(1))
WITH_HEAD = [name for name in TASKS if name != "pretrain"]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class ChannelNorm(nn.Module):
    """What the albedo head has where transformers' heads have InstanceNorm2d."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x / torch.sqrt((x**2).mean(1, keepdim=True) + 1e-6) * self.weight[:, None, None]


def networks(task: str, **changes) -> tuple[Sapiens2PreTrainedModel, nn.Module]:
    """Ours and transformers' with the same random weights. Albedo is its network for normals with other norms."""
    config = dataclasses.replace(tiny_config(task), **changes)
    if task == "albedo":
        plain = dataclasses.replace(config, head_config=dataclasses.replace(config.head_config, use_rms_norm=False))
        theirs = reference_model(plain, "Sapiens2ForNormalEstimation")
        head = theirs.decode_head
        head.input_conv.norm = ChannelNorm(config.hidden_size)
        widths = config.head_config.upsample_out_channels + config.head_config.conv_out_channels
        for layer, width in zip([*head.upsample_layers, *head.conv_layers], widths, strict=True):
            layer.norm = ChannelNorm(width)
    else:
        theirs = reference_model(config, TASKS[task].estimator)
    ours = MODEL_CLASSES[TASKS[task].estimator](config).eval()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    """Each parameter's gradient differs by at most 1e-4 of its norm.

    A parameter that can't change the loss, such as a bias before an InstanceNorm, has no gradient but rounding; it is
    compared with the largest of all instead.
    """
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    actual = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert actual.keys() == expected.keys()
    largest = max(gradient.norm() for gradient in expected.values() if gradient is not None)
    assert largest > 0
    for name, gradient in expected.items():
        if gradient is None:
            assert actual[name] is None, name
            continue
        allowed = 1e-4 * gradient.norm() + 1e-6 * largest
        assert (actual[name] - gradient).norm() <= allowed, name


# Each loss once more, by other means than in sapiens2_core.losses: pixel by pixel, without its helpers.

MASK = torch.rand(2, 128, 96, generator=torch.Generator().manual_seed(5)) > 0.3


def pixels_of(maps: Tensor) -> Tensor:
    """The valid pixels of (B, C, H, W) as (n, C)."""
    return maps.movedim(1, -1)[MASK]


def expected_pose(outputs, labels: Tensor, label_weights: Tensor) -> Tensor:
    return F.mse_loss(outputs.heatmaps, labels, weight=label_weights.expand_as(labels))


def expected_normal(outputs, labels: Tensor, valid_mask: Tensor) -> Tensor:
    n, t = pixels_of(outputs.normals), pixels_of(labels)
    return (1 - F.cosine_similarity(n, t, dim=1)).mean() + torch.linalg.vector_norm(n - t, ord=1, dim=1).mean()


def expected_pointmap(outputs, labels: Tensor, scale_labels: Tensor, valid_mask: Tensor) -> Tensor:
    total = 0
    for points, target, mask in zip(outputs.pointmaps, labels, MASK, strict=True):
        p, t = points[:, mask], target[:, mask]
        total = total + ((p - t) / t[2].mean()).abs().sum()
    return torch.clamp(total / MASK.sum(), max=4.0) + (outputs.scales[:, 0] - scale_labels).abs().mean()


def expected_matting(outputs, labels: Tensor, valid_mask: Tensor) -> Tensor:
    error = torch.cat([outputs.foregrounds, outputs.alphas], dim=1) - labels
    loss = pixels_of(error).abs().sum(1).mean()
    across = (error[..., 1:] - error[..., :-1]).movedim(1, -1)[MASK[..., 1:] & MASK[..., :-1]]
    down = (error[..., 1:, :] - error[..., :-1, :]).movedim(1, -1)[MASK[:, 1:] & MASK[:, :-1]]
    return loss + across.abs().sum(1).mean() + down.abs().sum(1).mean()


def expected_albedo(outputs, labels: Tensor, valid_mask: Tensor) -> Tensor:
    return pixels_of(outputs.normals - labels).abs().sum(1).mean()


def class_ids() -> Tensor:
    labels = torch.randint(0, 29, (2, 128, 96), generator=torch.Generator().manual_seed(2))
    return labels.masked_fill(~MASK, 255)


#: Per task what goes in beside the pixels, and the loss of transformers' outputs; None where transformers has one.
CASES = {
    "pose": (lambda: {"labels": random(2, 308, 32, 24), "label_weights": random(2, 308, 1, 1).abs()}, expected_pose),
    "seg": (lambda: {"labels": class_ids()}, None),
    "normal": (lambda: {"labels": F.normalize(random(2, 3, 128, 96)), "valid_mask": MASK}, expected_normal),
    "pointmap": (
        lambda: {
            "labels": random(2, 3, 128, 96) + torch.tensor([0.0, 0.0, 5.0]).view(3, 1, 1),
            "scale_labels": torch.tensor([0.7, 1.4]),
            "valid_mask": MASK[:, None],
        },
        expected_pointmap,
    ),
    "matting": (lambda: {"labels": random(2, 4, 128, 96).sigmoid(), "valid_mask": MASK}, expected_matting),
    "albedo": (lambda: {"labels": random(2, 3, 128, 96).sigmoid(), "valid_mask": MASK}, expected_albedo),
}


@pytest.mark.parametrize("task", WITH_HEAD)
def test_losses_and_gradients_equal_transformers(task):
    ours, theirs = networks(task)
    make_inputs, formula = CASES[task]
    inputs = make_inputs()
    loss = ours(PIXELS, **inputs).loss
    expected = theirs(PIXELS, **inputs).loss if formula is None else formula(theirs(PIXELS), **inputs)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=0)
    if task == "pointmap":
        assert loss < 4, "the clamp would hide the gradients"

    loss.backward()
    expected.backward()
    assert_same_gradients(ours, theirs)


def test_pose_loss_with_full_weights_is_that_of_transformers_itself():
    ours, theirs = networks("pose")
    labels, weights = random(2, 308, 32, 24), random(2, 308, 32, 24, seed=3).abs()
    for label_weights in (None, weights):
        inputs = {"labels": labels, "label_weights": label_weights}
        with torch.no_grad():
            torch.testing.assert_close(ours(PIXELS, **inputs).loss, theirs(PIXELS, **inputs).loss, rtol=1e-5, atol=0)


def test_another_ignored_class_is_the_configurations():
    ours, theirs = networks("seg", semantic_loss_ignore_index=3)
    labels = class_ids().clamp(max=28)
    with torch.no_grad():
        actual = ours(PIXELS, labels=labels)
        torch.testing.assert_close(actual.loss, theirs(PIXELS, labels=labels).loss, rtol=1e-5, atol=0)
    assert actual.loss != ours(PIXELS, labels=labels.masked_fill(labels == 3, 4)).loss


@pytest.mark.parametrize("task", WITH_HEAD)
def test_without_labels_there_is_no_loss_and_fields_come_in_transformers_order(task):
    ours, theirs = networks(task)
    with torch.no_grad():
        outputs = ours(PIXELS)
    assert outputs.loss is None
    if task != "albedo":
        names = [field.name for field in dataclasses.fields(type(theirs(PIXELS)))]
        assert [field.name for field in dataclasses.fields(outputs)] == names


def test_masked_patches_equal_transformers():
    ours, theirs = networks("pretrain", use_mask_token=True)
    mask = torch.rand(2, 48, generator=torch.Generator().manual_seed(4)) < 0.5
    actual, expected = (model(PIXELS, bool_masked_pos=mask).last_hidden_state for model in (ours, theirs))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)
    assert (actual - ours(PIXELS).last_hidden_state).abs().max() > 0.1

    target = random(2, 57, 32)
    for tokens in (actual, expected):
        F.mse_loss(tokens, target).backward()
    assert ours.embeddings.mask_token.grad.norm() > 0
    assert_same_gradients(ours, theirs)


RANDOM = {
    "pos_embed_shift": 0.2,
    "pos_embed_jitter": 1.5,
    "pos_embed_rescale": 2.0,
    "drop_path_rate": 0.3,
    "attention_dropout": 0.2,
}


@pytest.mark.parametrize(
    "changes",
    [
        {},  # rescaling by up to 2, the default
        {"pos_embed_rescale": None},
        *({"pos_embed_rescale": None} | {name: value} for name, value in RANDOM.items()),
        RANDOM,
    ],
    ids=lambda changes: "+".join(changes) or "default",
)
def test_one_seed_trains_the_same_network_as_in_transformers(changes):
    ours, theirs = networks("normal", **changes)
    results = []
    for model in (ours.train(), theirs.train()):
        torch.manual_seed(11)
        results.append(model(PIXELS).normals)
        results[-1].square().mean().backward()
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-4 * results[1].std().item())
    assert_same_gradients(ours, theirs)

    with torch.no_grad():
        torch.manual_seed(12)
        again = ours(PIXELS).normals
        quiet = ours.eval()(PIXELS).normals
        assert torch.equal(quiet, ours(PIXELS).normals)
    is_random = changes != {"pos_embed_rescale": None}
    assert torch.equal(again, quiet) == (not is_random)
    # Recording gradients may take other kernels (sapiens2_core/onednn.py): equal but for the last digits.
    is_same = torch.allclose(again, results[0], rtol=0, atol=1e-4 * quiet.std().item())
    assert is_same == (not is_random)


def test_positions_move_within_their_ranges():
    coordinates = patch_center_coordinates((4, 3), torch.device("cpu"))
    shift = Sapiens2Config(pos_embed_shift=0.3, pos_embed_rescale=None)
    jitter = Sapiens2Config(pos_embed_jitter=1.5, pos_embed_rescale=None)
    rescale = Sapiens2Config()
    torch.manual_seed(0)
    moves = torch.stack([augment_coordinates(coordinates, shift) - coordinates for _ in range(400)])
    stretches = torch.stack([augment_coordinates(coordinates, jitter)[0] / coordinates[0] for _ in range(400)])
    scales = torch.stack([augment_coordinates(coordinates, rescale)[0] / coordinates[0] for _ in range(400)])
    assert moves.std(dim=1).max() < 1e-6
    assert 0.28 < moves.max() <= 0.3 + 1e-6
    assert -0.3 - 1e-6 <= moves.min() < -0.28
    assert 1.4 < stretches.max() <= 1.5 + 1e-5
    assert 1 / 1.5 - 1e-5 <= stretches.min() < 1 / 1.4
    assert (stretches[:, 0] - stretches[:, 1]).abs().max() > 0.1
    assert 1.9 < scales.max() <= 2 + 1e-5
    assert (scales[:, 0] - scales[:, 1]).abs().max() < 1e-6


def test_drop_path_keeps_the_expectation():
    torch.manual_seed(0)
    x = torch.ones(10_000, 2, 3)
    dropped = drop_path(x, 0.3, training=True)
    assert set(dropped.unique().tolist()) == {0.0, (x / 0.7)[0, 0, 0].item()}
    assert torch.equal(dropped.amax(dim=(1, 2)), dropped.amin(dim=(1, 2)))
    assert dropped.mean().item() == pytest.approx(1, abs=0.03)
    assert drop_path(x, 0.3, training=False) is x


@pytest.mark.parametrize("task", ["pretrain", "seg", "normal", "pointmap"])
def test_first_weights_are_those_of_transformers(task):
    """Constants exactly; random ones by mean and standard deviation, within 6 standard errors."""
    config = dataclasses.replace(
        tiny_config(task), hidden_size=128, intermediate_size=256, use_mask_token=True, layerscale_value=0.3
    )
    torch.manual_seed(0)
    ours = MODEL_CLASSES[TASKS[task].estimator](config).state_dict()
    theirs = getattr(transformers, TASKS[task].estimator)(reference_config(config)).state_dict()
    assert ours.keys() == theirs.keys()
    constants = 0
    for name, expected in theirs.items():
        actual, count = ours[name], expected.numel()
        if count == 1 or expected.std() == 0:
            assert torch.equal(actual, expected), name
            constants += 1
            continue
        spread = expected.std()
        assert (actual.std() / spread - 1).abs() < 6 / count**0.5, name
        assert (actual.mean() - expected.mean()).abs() < 6 * spread * (2 / count) ** 0.5, name
    assert 0 < constants < len(theirs)


def saved_bytes(model: nn.Module, pixels: Tensor) -> int:
    """What a forward pass keeps for the backward pass, without the parameters."""
    owned = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = model(pixels)
    assert outputs is not None
    return sum(kept.values())


def test_recomputing_layers_changes_memory_but_no_gradient():
    ours, _ = networks("normal", **RANDOM)
    ours.train()
    inputs = CASES["normal"][0]()
    gradients, held = [], []
    for enable in (ours.gradient_checkpointing_disable, ours.gradient_checkpointing_enable):
        enable()
        ours.zero_grad()
        torch.manual_seed(11)
        ours(PIXELS, **inputs).loss.backward()
        gradients.append([parameter.grad.clone() for parameter in ours.parameters()])
        held.append(saved_bytes(ours.model, PIXELS))
    assert ours.is_gradient_checkpointing
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=1e-5, atol=1e-7)
    assert held[1] < held[0] / 5
    ours.gradient_checkpointing_disable()
    assert not ours.is_gradient_checkpointing


def test_the_tokenizer_is_recomputed_too():
    config = dataclasses.replace(tiny_config("pretrain"), num_tokenizer_layers=2, image_size=[256, 192])
    torch.manual_seed(0)
    model = MODEL_CLASSES["Sapiens2Model"](config).train()
    pixels = random(1, 3, 256, 192)
    gradients, held = [], []
    for enable in (model.gradient_checkpointing_disable, model.gradient_checkpointing_enable):
        enable()
        model.zero_grad()
        torch.manual_seed(11)
        model(pixels).last_hidden_state.square().mean().backward()
        gradients.append(model.embeddings.tokenizer.position_embeddings.grad.clone())
        held.append(saved_bytes(model.embeddings.tokenizer, random(1, 32, 16, 12)))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-8)
    assert gradients[0].norm() > 0
    assert held[1] < held[0] / 5

"""The examples of transformers' document on Sapiens2, in its order; only their import lines are changed.

They run in a folder that holds small checkpoints under the names that the document gives to repositories, so shapes
are those of a small input (:data:`SIZE`) and few channels. ``PHOTO`` stands for the document's address of a picture.
Where the document errs, or transformers does not do what it says, the test says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build

PHOTO = str(Path(__file__).parents[1] / "assets" / "astronaut.jpg")

#: Height and width of the input, 1024 × 768 in the document, and channels, 1024 there.
SIZE = HEIGHT, WIDTH = 128, 96
CHANNELS = 32

REPOSITORIES = {
    "facebook/sapiens2-pretrain-0.4b": "pretrain",
    "facebook/sapiens2-normal-0.4b": "normal",
    "facebook/sapiens2-pointmap-0.4b": "pointmap",
    "facebook/sapiens2-pose-0.4b": "pose",
    "facebook/sapiens2-seg-0.4b": "seg",
    "facebook/sapiens2-matting-1b": "matting",
    "held/sapiens2-albedo-0.4b": "albedo",  # not in the document: nobody publishes one
}


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def repositories(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repositories")
    for name, task in REPOSITORIES.items():
        torch.manual_seed(0)
        build(tiny_config(task, SIZE), task).to(request.param).save_pretrained(folder / name)
    return folder


@pytest.fixture(autouse=True)
def _here(repositories, monkeypatch):
    monkeypatch.chdir(repositories)


@pytest.fixture
def segmentation():
    """What the document's examples use before they define it."""
    return segment()


def test_cls_token():
    from sapiens2_core import AutoImageProcessor, AutoModel, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pretrain-0.4b")
    model = AutoModel.from_pretrained("facebook/sapiens2-pretrain-0.4b", device_map="auto")

    inputs = image_processor(images=image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.pooler_output is the CLS token (whole-image embedding)
    cls_token = outputs.pooler_output

    assert cls_token.shape == (1, CHANNELS)


def test_backbone():
    """The document's comment has feature maps channels last; the example in its reference says what is so.

    With ``return_class_token=True`` transformers gives no CLS tokens: it looks at the configuration only.
    """
    from sapiens2_core import AutoBackbone, AutoImageProcessor, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pretrain-0.4b")
    model = AutoBackbone.from_pretrained("facebook/sapiens2-pretrain-0.4b", device_map="auto")

    inputs = image_processor(images=image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs, return_class_token=True)

    patch_features = outputs.feature_maps[0]
    cls_token = outputs.cls_tokens[0]

    assert cls_token.shape == (1, CHANNELS)
    assert patch_features.shape == (1, CHANNELS, HEIGHT // 16, WIDTH // 16)


def test_normals(segmentation):
    """``segmentation`` is not defined in the document's example."""
    from sapiens2_core import AutoImageProcessor, AutoModelForNormalEstimation, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-normal-0.4b")
    model = AutoModelForNormalEstimation.from_pretrained("facebook/sapiens2-normal-0.4b", device_map="auto")

    inputs = image_processor(image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.normals shape: (batch_size, 3, height, width) — raw, unnormalized XYZ normals
    assert outputs.normals.shape == (1, 3, *SIZE)

    # Remove preprocessing padding, resize to original size, and L2-normalize to unit vectors in [-1, 1]
    original_size = (image.height, image.width)
    result = image_processor.post_process_normal_estimation(
        outputs, source_sizes=[original_size], target_sizes=[original_size]
    )
    normals = result[0]["normals"]
    assert normals.shape == (3, *original_size)

    # Convert L2-normalized normals in [-1, 1] to RGB in [0, 255]
    normals_rgb = ((normals + 1.0) / 2.0 * 255.0).clamp(0, 255).to(torch.uint8)

    # Apply background removal using the segmentation model output.
    background_mask = segmentation == 0
    normals_rgb[:, background_mask] = 0
    assert normals_rgb.shape == (3, *original_size)

    assert image_processor.do_pad
    assert 0 < background_mask.sum() < background_mask.numel()
    assert normals_rgb[:, ~background_mask].any()


def test_pointmap(segmentation):
    """``segmentation`` is not defined in the document's example.

    The colours of Turbo come from OpenCV instead of matplotlib, which is no dependency.
    """
    from sapiens2_core import AutoImageProcessor, AutoModelForPointmapEstimation, load_image
    from sapiens2_core.render import colour_depth

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pointmap-0.4b")
    model = AutoModelForPointmapEstimation.from_pretrained("facebook/sapiens2-pointmap-0.4b", device_map="auto")

    inputs = image_processor(image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.pointmaps shape: (batch_size, 3, height, width) — raw XYZ in canonical camera space
    assert outputs.pointmaps.shape == (1, 3, *SIZE)

    # Remove preprocessing padding, resize to original size, and apply focal-length scale
    original_size = (image.height, image.width)
    result = image_processor.post_process_pointmap_estimation(
        outputs, source_sizes=[original_size], target_sizes=[original_size]
    )
    pointmap = result[0]["pointmap"]
    assert pointmap.shape == (3, *original_size)

    # Visualize the pointmap as an RGB image using inverse-depth and the turbo colormap.
    foreground_mask = segmentation != 0
    depth = pointmap[2]  # Z channel: depth in camera space, shape (H, W)
    pointmap_rgb = torch.zeros(3, *depth.shape, dtype=torch.uint8)
    foreground_depth = depth[foreground_mask]
    assert foreground_depth.numel() > 0
    depth_low, depth_high = torch.quantile(foreground_depth, torch.tensor([0.01, 0.99]))
    inverse_depth = 1.0 / foreground_depth.clamp(min=1e-6)
    inverse_depth_low = 1.0 / depth_high.clamp(min=1e-6)
    inverse_depth_high = 1.0 / depth_low.clamp(min=1e-6)
    inverse_depth_normalized = (
        (inverse_depth - inverse_depth_low) / (inverse_depth_high - inverse_depth_low + 1e-8)
    ).clamp(0, 1)
    foreground_colors = (colour_depth(inverse_depth_normalized[None, None], "turbo")[:, 0] * 255).to(torch.uint8)
    pointmap_rgb[:, foreground_mask] = foreground_colors
    assert pointmap_rgb.shape == (3, *original_size)

    assert pointmap_rgb[:, foreground_mask].any()


def test_pose():
    from sapiens2_core import AutoImageProcessor, AutoModelForPoseEstimation, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pose-0.4b")
    model = AutoModelForPoseEstimation.from_pretrained("facebook/sapiens2-pose-0.4b", device_map="auto")

    # Provide bounding boxes in COCO format (x, y, width, height) for each person
    boxes = [[[270.8, 0.6, 294.1, 379.5]]]
    inputs = image_processor(image, boxes=boxes, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.heatmaps shape: (num_persons, num_keypoints, heatmap_height, heatmap_width)
    assert outputs.heatmaps.shape == (1, 308, HEIGHT // 4, WIDTH // 4)

    # Decode heatmaps to image-space keypoint coordinates
    results = image_processor.post_process_pose_estimation(outputs, boxes=boxes)[0]
    keypoints = results[0]["keypoints"]  # (num_keypoints, 2) — x/y in image coordinates
    scores = results[0]["scores"]  # (num_keypoints,) — per-keypoint confidence

    assert keypoints.shape == (308, 2)
    assert scores.shape == (308,)


def test_pose_with_flip_augmentation():
    from sapiens2_core import AutoImageProcessor, AutoModelForPoseEstimation, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pose-0.4b")
    model = AutoModelForPoseEstimation.from_pretrained("facebook/sapiens2-pose-0.4b", device_map="auto")

    boxes = [[[270.8, 0.6, 294.1, 379.5]]]
    inputs = image_processor(image, boxes=boxes, return_tensors="pt").to(model.device)
    pixel_values = inputs["pixel_values"]

    flip_pairs = torch.tensor(model.config.flip_pairs, device=model.device)

    with torch.inference_mode():
        outputs = model(pixel_values)
        outputs_flipped = model(pixel_values.flip(-1), flip_pairs=flip_pairs)

    results = image_processor.post_process_pose_estimation(outputs, outputs_flipped=outputs_flipped, boxes=boxes)[0]
    keypoints = results[0]["keypoints"]
    scores = results[0]["scores"]

    assert flip_pairs.shape == (146, 2)
    assert keypoints.shape == (308, 2)
    mean = (outputs.heatmaps.float() + outputs_flipped.heatmaps.float()) / 2
    assert torch.allclose(scores, mean.flatten(2).amax(-1)[0], atol=1e-5)


def pose_with_labels(heatmap_height: int, heatmap_width: int):
    from sapiens2_core import AutoImageProcessor, AutoModelForPoseEstimation, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pose-0.4b")
    model = AutoModelForPoseEstimation.from_pretrained("facebook/sapiens2-pose-0.4b", device_map="auto")

    # Provide bounding boxes in COCO format (x, y, width, height) for each person
    boxes = [[[270.8, 0.6, 294.1, 379.5]]]
    inputs = image_processor(image, boxes=boxes, return_tensors="pt").to(model.device)

    # Create dummy labels (heatmaps) and visibility weights to simulate ground truth
    # 1.0 for visible keypoints, 0.0 for occluded/invisible keypoints
    batch_size, num_keypoints = 1, 308
    labels = torch.randn(batch_size, num_keypoints, heatmap_height, heatmap_width, device=model.device)
    label_weights = torch.ones(batch_size, num_keypoints, 1, 1, device=model.device)

    # Forward pass with loss calculation
    return model(**inputs, labels=labels, label_weights=label_weights), labels


def test_pose_loss():
    """The document's labels are as large as the input; heatmaps are a quarter of it, and so labels must be."""
    outputs, labels = pose_with_labels(HEIGHT // 4, WIDTH // 4)
    expected = ((outputs.heatmaps.float() - labels) ** 2).mean()
    assert outputs.loss.item() == pytest.approx(
        expected.item(), rel=1e-5 if outputs.loss.dtype == torch.float32 else 1e-2
    )
    assert outputs.loss.requires_grad

    with pytest.raises(ValueError, match="labels"):
        pose_with_labels(HEIGHT, WIDTH)


def segment():
    from sapiens2_core import AutoImageProcessor, AutoModelForSemanticSegmentation, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-seg-0.4b")
    model = AutoModelForSemanticSegmentation.from_pretrained("facebook/sapiens2-seg-0.4b", device_map="auto")

    inputs = image_processor(image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.logits shape: (batch_size, num_labels, height, width)
    assert outputs.logits.shape == (1, 29, *SIZE)

    # Get per-pixel class predictions, optionally resized to the original image size
    original_size = (image.height, image.width)
    segmentation = image_processor.post_process_semantic_segmentation(outputs, target_sizes=[original_size])[0]
    assert segmentation.shape == original_size
    return segmentation


def test_segmentation():
    segmentation = segment()
    assert len(segmentation.unique()) > 1


def test_matting():
    """The document's prose has composite = foreground * (1 - alpha) * background; the first * is a +."""
    from sapiens2_core import AutoImageProcessor, AutoModelForImageMatting, load_image

    image = load_image(PHOTO)

    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-matting-1b")
    model = AutoModelForImageMatting.from_pretrained("facebook/sapiens2-matting-1b", device_map="auto")

    inputs = image_processor(image, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        outputs = model(**inputs)

    # outputs.foregrounds: (1, 3, H, W), outputs.alphas: (1, 1, H, W) — both in [0, 1]
    original_size = (image.height, image.width)

    # Pass an optional background to composite the foreground over it.
    # A (3, 1, 1) tensor broadcasts as a uniform color; PIL images and numpy arrays are also accepted.
    background = torch.tensor([0, 177, 64], dtype=torch.uint8).view(3, 1, 1)  # chroma green in RGB
    result = image_processor.post_process_image_matting(outputs, target_sizes=[original_size], backgrounds=background)[
        0
    ]
    assert result["alpha"].shape == (1, *original_size)
    assert result["foreground"].shape == (3, *original_size)
    assert result["composite"].shape == (3, *original_size)
    assert result["composite"].dtype == torch.uint8

    expected = (result["foreground"] + (1 - result["alpha"]) * (background / 255)).clamp(0, 1) * 255
    assert (result["composite"].float() - expected).abs().max() <= 1


# The examples in the document's reference, class by class. transformers' AutoModel gives the bare model for the
# repositories of tasks, so that they fail there; here AutoModel gives the class of the checkpoint's task.

FIELDS = {
    "facebook/sapiens2-matting-1b": {"alphas": (1, 1, *SIZE), "foregrounds": (1, 3, *SIZE)},
    "facebook/sapiens2-normal-0.4b": {"normals": (1, 3, *SIZE)},
    "facebook/sapiens2-pointmap-0.4b": {"pointmaps": (1, 3, *SIZE), "scales": (1, 1)},
    "facebook/sapiens2-seg-0.4b": {"logits": (1, 29, *SIZE)},
    "held/sapiens2-albedo-0.4b": {"albedos": (1, 3, *SIZE)},
}


def test_reference_model():
    from sapiens2_core import AutoImageProcessor, AutoModel, load_image

    image = load_image(PHOTO)
    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pretrain-0.4b")
    model = AutoModel.from_pretrained("facebook/sapiens2-pretrain-0.4b")

    inputs = image_processor(images=image, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs)

    assert outputs.pooler_output.shape == (1, CHANNELS)
    assert outputs.last_hidden_state.shape == (1, 1 + 8 + HEIGHT // 16 * WIDTH // 16, CHANNELS)


def test_reference_backbone():
    from sapiens2_core import AutoBackbone, AutoImageProcessor, load_image

    image = load_image(PHOTO)
    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pretrain-0.4b")
    model = AutoBackbone.from_pretrained("facebook/sapiens2-pretrain-0.4b")

    inputs = image_processor(images=image, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs, return_class_token=True)

    assert outputs.feature_maps[0].shape == (1, CHANNELS, HEIGHT // 16, WIDTH // 16)
    assert outputs.cls_tokens[0].shape == (1, CHANNELS)


@pytest.mark.parametrize("repository", FIELDS)
def test_reference_of_each_dense_task(repository):
    from sapiens2_core import AutoImageProcessor, AutoModel, load_image

    image = load_image(PHOTO)
    image_processor = AutoImageProcessor.from_pretrained(repository)
    model = AutoModel.from_pretrained(repository)

    inputs = image_processor(image, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs)

    for name, shape in FIELDS[repository].items():
        assert getattr(outputs, name).shape == shape


def test_reference_pose():
    from sapiens2_core import AutoImageProcessor, AutoModel, load_image

    image = load_image(PHOTO)
    image_processor = AutoImageProcessor.from_pretrained("facebook/sapiens2-pose-0.4b")
    model = AutoModel.from_pretrained("facebook/sapiens2-pose-0.4b")

    boxes = [[[270.8, 0.6, 294.1, 379.5]]]
    inputs = image_processor(image, boxes=boxes, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs)

    assert outputs.heatmaps.shape == (1, 308, HEIGHT // 4, WIDTH // 4)

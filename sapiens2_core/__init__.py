"""Sapiens2: pose, body parts, surface normals, pointmaps, mattes and albedo of people in pictures."""

from .auto import (
    AutoBackbone,
    AutoImageProcessor,
    AutoModel,
    AutoModelForAlbedoEstimation,
    AutoModelForImageMatting,
    AutoModelForNormalEstimation,
    AutoModelForPointmapEstimation,
    AutoModelForPoseEstimation,
    AutoModelForSemanticSegmentation,
)
from .backbone import BaseModelOutputWithPooling, Sapiens2Backbone, Sapiens2BackboneOutput, Sapiens2Model
from .checkpoint import CheckpointInfo, inspect
from .checkpoint_files import CheckpointError
from .config import Sapiens2Config, Sapiens2HeadConfig
from .estimators import (
    Sapiens2AlbedoEstimatorOutput,
    Sapiens2ForAlbedoEstimation,
    Sapiens2ForImageMatting,
    Sapiens2ForNormalEstimation,
    Sapiens2ForPointmapEstimation,
    Sapiens2ForPoseEstimation,
    Sapiens2ForSemanticSegmentation,
    Sapiens2ImageMattingOutput,
    Sapiens2NormalEstimatorOutput,
    Sapiens2PointmapEstimatorOutput,
    Sapiens2PoseEstimatorOutput,
    SemanticSegmenterOutput,
)
from .image_processor import Sapiens2ImageProcessor
from .inference import Estimator
from .photos import load_image
from .pretrained import Sapiens2PreTrainedModel

__all__ = [
    "AutoBackbone",
    "AutoImageProcessor",
    "AutoModel",
    "AutoModelForAlbedoEstimation",
    "AutoModelForImageMatting",
    "AutoModelForNormalEstimation",
    "AutoModelForPointmapEstimation",
    "AutoModelForPoseEstimation",
    "AutoModelForSemanticSegmentation",
    "BaseModelOutputWithPooling",
    "CheckpointError",
    "CheckpointInfo",
    "Estimator",
    "Sapiens2AlbedoEstimatorOutput",
    "Sapiens2Backbone",
    "Sapiens2BackboneOutput",
    "Sapiens2Config",
    "Sapiens2ForAlbedoEstimation",
    "Sapiens2ForImageMatting",
    "Sapiens2ForNormalEstimation",
    "Sapiens2ForPointmapEstimation",
    "Sapiens2ForPoseEstimation",
    "Sapiens2ForSemanticSegmentation",
    "Sapiens2HeadConfig",
    "Sapiens2ImageMattingOutput",
    "Sapiens2ImageProcessor",
    "Sapiens2Model",
    "Sapiens2NormalEstimatorOutput",
    "Sapiens2PointmapEstimatorOutput",
    "Sapiens2PoseEstimatorOutput",
    "Sapiens2PreTrainedModel",
    "SemanticSegmenterOutput",
    "inspect",
    "load_image",
]

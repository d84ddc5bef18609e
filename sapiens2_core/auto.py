"""transformers' Auto classes, as far as Sapiens2 needs them: its document's code runs with another import line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import estimators
from .backbone import Sapiens2Backbone
from .checkpoint import inspect
from .config import Sapiens2Config, official_config
from .hub import CATALOGUE, PREPROCESSOR_NAME, find_json, repo_id_of, resolve
from .image_processor import Sapiens2ImageProcessor
from .pretrained import Sapiens2PreTrainedModel
from .tasks import TASKS, Task

# One class of networks serves each of these tasks, so there is nothing to choose.
AutoBackbone = Sapiens2Backbone
AutoModelForPoseEstimation = estimators.Sapiens2ForPoseEstimation
AutoModelForSemanticSegmentation = estimators.Sapiens2ForSemanticSegmentation
AutoModelForNormalEstimation = estimators.Sapiens2ForNormalEstimation
AutoModelForPointmapEstimation = estimators.Sapiens2ForPointmapEstimation
AutoModelForImageMatting = estimators.Sapiens2ForImageMatting
AutoModelForAlbedoEstimation = estimators.Sapiens2ForAlbedoEstimation


class AutoModel:
    """The network that a checkpoint was made for: the bare model of a pretrained one, else its task's.

    (transformers gives the bare model for every checkpoint, which its document's examples don't expect. Here that is
    what ``Sapiens2Model.from_pretrained`` does.)
    """

    @staticmethod
    def from_pretrained(path_or_repo: str | Path, **options: Any) -> Sapiens2PreTrainedModel:
        """As :meth:`~sapiens2_core.pretrained.Sapiens2PreTrainedModel.from_pretrained`."""
        return Sapiens2PreTrainedModel.from_pretrained(path_or_repo, **options)

    @staticmethod
    def from_config(config: Sapiens2Config) -> Sapiens2PreTrainedModel:
        """A network with first weights, of the class that ``config.architectures`` names; without it the bare model."""
        name = (config.architectures or ["Sapiens2Model"])[0]
        return estimators.MODEL_CLASSES[name](config)


def processor_for(config: Sapiens2Config, task: Task, **options: Any) -> Sapiens2ImageProcessor:
    """The processor of a network: its native input, letterboxed where its task is; ``options`` win."""
    height, width = config.image_height_width
    made = {"size": {"height": height, "width": width}, "do_pad": task.letterbox}
    return Sapiens2ImageProcessor(**(made | options))


class AutoImageProcessor:
    """The image processor that belongs to a checkpoint."""

    @staticmethod
    def from_pretrained(path_or_repo: str | Path, **options: Any) -> Sapiens2ImageProcessor:
        """The processor that preprocessor_config.json beside a checkpoint describes.

        Without that file it is made for the checkpoint's native input, letterboxed where its task is.

        Args:
            path_or_repo: as for :meth:`~sapiens2_core.pretrained.Sapiens2PreTrainedModel.from_pretrained`.
            options: as for :meth:`~sapiens2_core.image_processor.Sapiens2ImageProcessor.from_pretrained`.

        Raises:
            CheckpointError: there is no Sapiens2 checkpoint, or the repository can't be had.
        """
        hub, changes = Sapiens2ImageProcessor.split_options(options)
        if find_json(path_or_repo, PREPROCESSOR_NAME, **hub) is not None:
            return Sapiens2ImageProcessor.from_pretrained(path_or_repo, **options)
        official = CATALOGUE.get(repo_id_of(path_or_repo) or "")  # a folder of such a name may be of another size
        if official is not None:
            task, config = official.task, official_config(official.size, official.task)
        else:
            info = inspect(resolve(path_or_repo, **hub))
            task, config = info.task, info.config
        return processor_for(config, TASKS[task], **changes)

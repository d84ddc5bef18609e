"""The nodes: each unpacks its sockets, makes one call into sapiens2_core, and packs what comes back."""

from comfy_api.latest import ComfyExtension, io

from . import host
from .albedo import Sapiens2EstimateAlbedo
from .camera import Sapiens2PointmapCamera
from .features import Sapiens2ExtractFeatures
from .load import Sapiens2LoadModel
from .make_boxes import Sapiens2BoxesFromMask, Sapiens2BoxesFromPose
from .matting import Sapiens2Matting
from .normals import Sapiens2EstimateNormals, Sapiens2PointmapNormals
from .pointmap import Sapiens2EstimatePointmap, Sapiens2PointmapToDepth
from .pose import Sapiens2EstimatePose
from .pose_files import Sapiens2LoadPose, Sapiens2SavePose
from .render_pose import Sapiens2RenderPose
from .save_pointmap import Sapiens2SavePointmap
from .segment import Sapiens2SegmentBodyParts
from .select_parts import Sapiens2SelectBodyParts
from .select_people import Sapiens2SelectPeople
from .smooth_pose import Sapiens2SmoothPose
from .surfaces import Sapiens2PointmapToMesh, Sapiens2PointmapToPointCloud


class Sapiens2Extension(ComfyExtension):
    """What ComfyUI asks for the pack's nodes."""

    async def on_load(self) -> None:
        """Makes the model folders known before a node lists them."""
        host.register_model_folders()

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """Every node, in the order of the menu."""
        return [
            Sapiens2LoadModel,
            Sapiens2EstimatePose,
            Sapiens2SelectPeople,
            Sapiens2BoxesFromPose,
            Sapiens2BoxesFromMask,
            Sapiens2SmoothPose,
            Sapiens2RenderPose,
            Sapiens2LoadPose,
            Sapiens2SavePose,
            Sapiens2SegmentBodyParts,
            Sapiens2SelectBodyParts,
            Sapiens2EstimateNormals,
            Sapiens2EstimatePointmap,
            Sapiens2PointmapToDepth,
            Sapiens2PointmapNormals,
            Sapiens2PointmapToMesh,
            Sapiens2PointmapToPointCloud,
            Sapiens2PointmapCamera,
            Sapiens2SavePointmap,
            Sapiens2Matting,
            Sapiens2EstimateAlbedo,
            Sapiens2ExtractFeatures,
        ]

"""Pointmap to Mesh, Pointmap to Point Cloud."""

from __future__ import annotations

from io import BytesIO

import torch
from comfy_api.latest import Types, io
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..sapiens2_core.geometry import foreground
from ..sapiens2_core.glb import glb_bytes
from ..sapiens2_core.mesh import Mesh, grid_mesh
from ..sapiens2_core.point_cloud import ply_bytes
from ..sapiens2_core.results import Pointmap
from ..sapiens2_core.surface_normals import EDGE_TOLERANCE
from . import host
from .inputs import check_frame
from .sockets import frame_input, mask_input, pointmap_input


def stride_input(of: str) -> io.Input:
    """How sparse."""
    return io.Int.Input(
        "stride",
        default=1,
        min=1,
        max=64,
        tooltip=f"Takes {of} every so many pixels: 1 is all of them, 2 makes files a quarter as large. A viewer in the "
        "page has enough of a million.",
    )


class Sapiens2PointmapToMesh(io.ComfyNode):
    """A surface with the photo on it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2PointmapToMesh",
            display_name="Pointmap to Mesh",
            category="Sapiens2/3D",
            description="Makes a 3D surface of what the camera sees, in metres, with the photo on it. It has no back.",
            search_aliases=["mesh", "3d model", "glb", "gltf", "image to 3d", "photo to mesh"],
            inputs=[
                pointmap_input(),
                frame_input("-1 makes a mesh of every frame.", all_frames=True),
                io.Float.Input(
                    "edge_tolerance",
                    default=EDGE_TOLERANCE,
                    min=0.0,
                    max=1.0,
                    step=0.005,
                    tooltip="Tears the surface where depth changes by more than this share within 3 × 3 pixels. "
                    "Less tears at steep folds too; more leaves sheets between an arm and what is behind it; "
                    "0 tears nothing.",
                ),
                stride_input("a vertex"),
                io.Boolean.Input("texture", default=True, tooltip="On: the photo is on the surface. Off: white."),
                mask_input("Only it becomes surface, instead of the pointmap's own mask."),
            ],
            outputs=[
                io.Mesh.Output("mesh", tooltip="For nodes that work on meshes; x right, y up, z towards the camera."),
                io.File3DGLB.Output(
                    "glb", tooltip="The same as a file, for Preview 3D and Save 3D Model. Of a clip it holds a scene "
                    "per frame, of which viewers show the first."
                ),
            ],
        )  # fmt: skip

    @classmethod
    def execute(
        cls,
        pointmap: Pointmap,
        frame: int,
        edge_tolerance: float,
        stride: int,
        texture: bool,
        mask: Tensor | None = None,
    ) -> io.NodeOutput:
        """Makes one frame's mesh, or all frames'."""
        if frame >= 0:
            check_frame(frame, len(pointmap.points))
        frames = [frame] if frame >= 0 else list(range(len(pointmap.points)))
        mask = mask if mask is None else mask.cpu()
        meshes = [
            grid_mesh(pointmap.points[index], foreground(pointmap, index, mask), edge_tolerance, stride)
            for index in (frames[number] for number in host.with_progress(len(frames)))
        ]
        if not any(len(mesh.faces) for mesh in meshes):
            where = f"Frame {frame} has" if frame >= 0 else "The clip has"
            raise ValueError(
                f"{where} no surface to make a mesh of: the mask leaves nothing, or edge_tolerance "
                f"({edge_tolerance:g}) tears everything. Try a larger one, or a smaller stride."
            )
        images = pointmap.images[frames] if texture else None
        glb = glb_bytes(meshes, images)
        return io.NodeOutput(_pack(meshes, images), Types.File3D(BytesIO(glb), file_format="glb"))


def _pack(meshes: list[Mesh], images: Tensor | None) -> Types.MESH:
    """Meshes as ComfyUI's padded batch, with their real lengths beside it where there are several."""
    several = len(meshes) > 1
    return Types.MESH(
        vertices=pad_sequence([mesh.vertices for mesh in meshes], batch_first=True),
        faces=pad_sequence([mesh.faces for mesh in meshes], batch_first=True),
        uvs=pad_sequence([mesh.uvs for mesh in meshes], batch_first=True),
        normals=pad_sequence([mesh.normals for mesh in meshes], batch_first=True),
        texture=None if images is None else images.movedim(1, -1),
        vertex_counts=torch.tensor([len(mesh.vertices) for mesh in meshes]) if several else None,
        face_counts=torch.tensor([len(mesh.faces) for mesh in meshes]) if several else None,
    )


class Sapiens2PointmapToPointCloud(io.ComfyNode):
    """Coloured points."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2PointmapToPointCloud",
            display_name="Pointmap to Point Cloud",
            category="Sapiens2/3D",
            description="Makes a PLY file of a frame's points, in metres, with colours and normals.",
            search_aliases=["point cloud", "ply", "3d points", "pointcloud"],
            inputs=[
                pointmap_input(),
                frame_input(),
                stride_input("a point"),
                mask_input("Only its points are taken, instead of the pointmap's own mask."),
            ],
            outputs=[
                io.File3DPLY.Output(
                    "ply",
                    tooltip="For Preview Point Cloud and Save Point Cloud; x right, y up, z towards the camera.",
                )
            ],
        )

    @classmethod
    def execute(cls, pointmap: Pointmap, frame: int, stride: int, mask: Tensor | None = None) -> io.NodeOutput:
        """Makes one frame's file."""
        check_frame(frame, len(pointmap.points))
        inside = foreground(pointmap, frame, mask if mask is None else mask.cpu())
        ply = ply_bytes(pointmap.points[frame], pointmap.images[frame], inside, stride)
        return io.NodeOutput(Types.File3D(BytesIO(ply), file_format="ply"))

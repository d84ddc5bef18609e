"""Select People."""

from __future__ import annotations

from comfy_api.latest import io

from ..sapiens2_core.openpose import to_openpose
from ..sapiens2_core.people import ORDERS
from ..sapiens2_core.pose_selection import WHICH, read_numbers, select_people
from ..sapiens2_core.results import Pose
from .sockets import PoseSocket, confidence_input, pose_outputs, score_threshold_input


class Sapiens2SelectPeople(io.ComfyNode):
    """Some of the people of a clip."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SelectPeople",
            display_name="Select People",
            category="Sapiens2/Pose",
            description="Keeps some of the people of a clip. They are followed through it, so that a number means one "
            "person in every frame.",
            search_aliases=["filter people", "choose person", "pick person", "largest person", "track", "person index"],
            inputs=[
                PoseSocket.Input("pose", tooltip="From Estimate Pose, of all frames of a clip at once."),
                io.Combo.Input(
                    "which",
                    options=list(WHICH),
                    default=WHICH[0],
                    tooltip="by number: those that people lists. largest: the one who fills most of the clip. longest "
                    "track: the one who is seen in most frames.",
                ),
                io.String.Input(
                    "people",
                    default="0",
                    tooltip="For by number: one number or several, such as 0, 2. People are numbered from 0: those of "
                    "the first frame in their order there, then those who come later.",
                ),
                io.Combo.Input(
                    "order",
                    options=["as given", *(order for order in ORDERS if order != "as given")],
                    default="as given",
                    tooltip="In which order the chosen stand in each frame. as given: that of the numbers.",
                ),
                score_threshold_input(),
                confidence_input(),
            ],
            outputs=pose_outputs(),
        )

    @classmethod
    def execute(
        cls, pose: Pose, which: str, people: str, order: str, score_threshold: float, confidence: str
    ) -> io.NodeOutput:
        """Follows everybody, then keeps the chosen."""
        numbers = read_numbers(people) if which == "by number" else ()
        chosen = select_people(pose, which, numbers, order)
        return io.NodeOutput(chosen, to_openpose(chosen, score_threshold, real_confidence=confidence == "real"))

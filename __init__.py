"""ComfyUI's way into this pack: it imports the folder and asks for the nodes."""

WEB_DIRECTORY = "./web"


async def comfy_entrypoint():
    """The pack's nodes, for ComfyUI."""
    # Imported here and not above: pytest imports this file too, where there is no ComfyUI.
    from .nodes import Sapiens2Extension

    return Sapiens2Extension()

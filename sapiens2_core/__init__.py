"""Sapiens2: pose, body parts, surface normals, pointmaps, mattes and albedo of people in pictures."""

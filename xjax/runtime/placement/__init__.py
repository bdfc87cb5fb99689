"""Placement of arrays: meshes, partition specs, shardings."""

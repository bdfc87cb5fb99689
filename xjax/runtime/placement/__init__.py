"""Where arrays are: meshes, partition specs, shardings."""

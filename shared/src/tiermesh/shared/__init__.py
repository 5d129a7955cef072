"""What every service of the mesh is built from."""

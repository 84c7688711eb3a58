"""Layouts are linear maps over F2. They state which warp, lane and register contain each element of a tile."""

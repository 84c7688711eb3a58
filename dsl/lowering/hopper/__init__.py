"""Warpgroup MMAs (wgmma), and TMA boxes."""

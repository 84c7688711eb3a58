"""MMAs of warp groups (wgmma), and TMA boxes."""

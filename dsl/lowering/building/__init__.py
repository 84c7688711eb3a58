"""Building IR and verifying it; loops in closed form, and iterations made once more."""

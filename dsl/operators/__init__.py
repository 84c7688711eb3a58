"""What operators of torch and functions of JAX have in common: their names, outputs, gradients and folded dims. Imports
no framework."""

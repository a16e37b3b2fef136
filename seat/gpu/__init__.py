"""The border to the graphics card: the only package that imports torch and NeMo, on the GPU thread only."""

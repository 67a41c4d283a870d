"""`--target xrt`: the DPU on an Alveo card through AMD's runtime and its Python module `pyxrt`."""
